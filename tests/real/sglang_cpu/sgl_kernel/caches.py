"""Bookkeeping of the key-value cache: which slots belong to which request.

`req_to_token` has one row a request and one column a position; its entries are slots of the cache.
"""

import ctypes
from collections.abc import Iterator

import torch
from torch import Tensor


def _spans(rows: Tensor, starts: Tensor, ends: Tensor) -> Iterator[tuple[int, int, int]]:
    return zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=False)


def assign_req_to_token_pool_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    start_offset: Tensor,
    end_offset: Tensor,
    out_cache_loc: Tensor,
    _pool_len: int,
) -> None:
    """Write new slots, request after request, into the rows of the requests."""
    taken = 0
    for row, start, end in _spans(req_pool_indices, start_offset, end_offset):
        slots = out_cache_loc[taken : taken + end - start]
        req_to_token[row, start:end] = slots.to(req_to_token.dtype)
        taken += end - start


def assign_extend_cache_locs_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    start_offset: Tensor,
    end_offset: Tensor,
    out_cache_loc: Tensor,
    _pool_len: int,
) -> None:
    """Read the slots of a span of each request into one list."""
    taken = 0
    for row, start, end in _spans(req_pool_indices, start_offset, end_offset):
        slots = req_to_token[row, start:end]
        out_cache_loc[taken : taken + end - start] = slots.to(out_cache_loc.dtype)
        taken += end - start


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    seq_lens: Tensor,
    out_cache_loc: Tensor,
    _pool_len: int,
    topk: int,
    num_steps: int,
) -> None:
    """Read the slots behind each request's end that its draft will use."""
    count = topk * num_steps
    for place, (row, length, _) in enumerate(_spans(req_pool_indices, seq_lens, seq_lens)):
        slots = req_to_token[row, length : length + count].to(out_cache_loc.dtype)
        out_cache_loc[place * count : (place + 1) * count] = slots


def build_draft_decode_metadata_cpu(
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    topk: int,
    num_steps: int,
    _pool_len: int,
) -> Tensor:
    """One row of slots a beam: the prefix that all beams of a request share, then its own run."""
    shape = (req_pool_indices.shape[0] * topk, req_to_token.shape[1])
    rows = torch.zeros(shape, dtype=req_to_token.dtype)
    for place, (row, length, _) in enumerate(_spans(req_pool_indices, seq_lens, seq_lens)):
        for beam in range(topk):
            own = length + beam * num_steps
            out = rows[place * topk + beam]
            out[:length] = req_to_token[row, :length]
            out[length : length + num_steps] = req_to_token[row, own : own + num_steps]
    return rows


def fill_bonus_tokens_cpu(
    accept_tokens: Tensor, accept_lens: Tensor, bonus_tokens: Tensor, accept_stride: int
) -> None:
    """Pick each request's last accepted token."""
    count = accept_lens.shape[0]
    last = torch.arange(count) * accept_stride + accept_lens.to(torch.int64) - 1
    bonus_tokens[:count] = accept_tokens.reshape(-1)[last].to(bonus_tokens.dtype)


def fill_accept_out_cache_loc_cpu(
    accept_index: Tensor, out_cache_loc: Tensor, accept_out_cache_loc: Tensor
) -> None:
    """Gather the slots of the accepted tokens; -1 marks a place without one."""
    places = accept_index.reshape(-1)
    places = places[places >= 0].to(torch.int64)
    slots = out_cache_loc[places].to(accept_out_cache_loc.dtype)
    accept_out_cache_loc[: places.numel()] = slots


def copy_all_layer_kv_cache_cpu(
    data_ptrs: Tensor, strides: Tensor, tgt_loc: Tensor, src_loc: Tensor
) -> None:
    """Move rows of every layer's keys and values. The buffers are given by address."""
    sources, targets = src_loc.tolist(), tgt_loc.tolist()
    for base, size in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        # A row can be source and target: all are read before any is written.
        rows = [ctypes.string_at(base + slot * size, size) for slot in sources]
        for slot, row in zip(targets, rows, strict=True):
            ctypes.memmove(base + slot * size, row, size)


def rotate_input_ids_cpu(
    input_ids: Tensor,
    extend_start_loc: Tensor,
    extend_seq_lens: Tensor,
    topk_index: Tensor,
    select_index: Tensor | None = None,
) -> None:
    """Shift each request's tokens left by one and put the newest token at the free place."""
    newest = topk_index.reshape(-1)
    spans = _spans(extend_start_loc, extend_seq_lens, extend_seq_lens)
    for place, (start, length, _) in enumerate(spans):
        if length <= 0:
            continue
        last = start + length - 1
        input_ids[start:last] = input_ids[start + 1 : last + 1].clone()
        where = last if select_index is None else int(select_index.reshape(-1)[place])
        input_ids[where] = newest[place].to(input_ids.dtype)
