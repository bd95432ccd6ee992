"""The two attention operators of SGLang on a CPU: one new token a request, or several, with a tree.

One request is computed at a time, in float32, so that its numbers do not depend on its neighbours
in the batch.
"""

import torch
from torch import Tensor


def _attend(
    query: Tensor, keys: Tensor, values: Tensor, scale: float, cap: float, mask: Tensor | None
) -> Tensor:
    """Attention of the T queries of one request over its L cached tokens, heads in groups."""
    tokens, heads, width = query.shape
    length, groups, out_width = values.shape
    share = heads // groups
    # [T, heads, D] -> [groups, share * T, D]: the queries that look at one head of keys together.
    q = query.float().view(tokens, groups, share, width).permute(1, 2, 0, 3)
    q = q.reshape(groups, share * tokens, width)
    scores = torch.bmm(q, keys.float().permute(1, 2, 0)) * scale
    if cap > 0:
        scores = cap * torch.tanh(scores / cap)
    scores = scores.view(groups, share, tokens, length)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, -1).view(groups, share * tokens, length)
    out = torch.bmm(weights, values.float().permute(1, 0, 2))
    out = out.view(groups, share, tokens, out_width).permute(2, 0, 1, 3)
    return out.reshape(tokens, heads, out_width)


def _decode(
    query: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    _k_scale: float,
    _v_scale: float,
    output: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    loc: Tensor | None,
    _attn_logits: Tensor,
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    sm_scale: float,
    logit_cap: float,
    _is_cross_attn: bool,
    window: int,
    _encoder_lens: Tensor | None,
    _sinks: Tensor | None,
) -> None:
    if key is not None and value is not None and loc is not None:
        k_buffer[loc] = key.view(-1, *k_buffer.shape[1:]).to(k_buffer.dtype)
        v_buffer[loc] = value.view(-1, *v_buffer.shape[1:]).to(v_buffer.dtype)
    lengths = seq_lens.tolist()
    for place, (row, length) in enumerate(zip(req_pool_indices.tolist(), lengths, strict=True)):
        start = max(0, length - window) if window > 0 else 0
        slots = req_to_token[row, start:length].long()
        one = slice(place, place + 1)
        found = _attend(query[one], k_buffer[slots], v_buffer[slots], sm_scale, logit_cap, None)
        output[one] = found.to(output.dtype)


def _extend(
    q_extend: Tensor,
    _k_extend: Tensor | None,
    _v_extend: Tensor | None,
    o_extend: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    _k_scale: float,
    _v_scale: float,
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    extend_seq_lens: Tensor,
    extend_start_loc: Tensor,
    _max_len_extend: int,
    sm_scale: float,
    logit_cap: float,
    _is_cross_attn: bool,
    window: int,
    _encoder_lens: Tensor | None,
    _sinks: Tensor | None,
    tree_mask: Tensor | None,
    is_causal: bool,
) -> None:
    tree = None if tree_mask is None else tree_mask.reshape(-1).to(torch.bool)
    used = 0
    for row, length, new, start in zip(
        req_pool_indices.tolist(),
        seq_lens.tolist(),
        extend_seq_lens.tolist(),
        extend_start_loc.tolist(),
        strict=False,
    ):
        slots = req_to_token[row, :length].long()
        mask = _causal(length, new, window) if is_causal else None
        if tree is not None:
            mask = torch.ones((new, length), dtype=torch.bool)
            mask[:, length - new :] = tree[used : used + new * new].view(new, new)
            used += new * new
        part = slice(start, start + new)
        found = _attend(q_extend[part], k_buffer[slots], v_buffer[slots], sm_scale, logit_cap, mask)
        o_extend[part] = found.to(o_extend.dtype)


def _causal(length: int, new: int, window: int) -> Tensor:
    """Which cached tokens the last `new` tokens see: none after itself, none before the window."""
    query = torch.arange(length - new, length)[:, None]
    key = torch.arange(length)[None, :]
    mask = key <= query
    return mask & (key > query - window) if window > 0 else mask


_library = torch.library.Library("sgl_kernel", "FRAGMENT")
_library.define(
    "decode_attention_cpu(Tensor query, Tensor(a!) k_buffer, Tensor(b!) v_buffer, float k_scale, "
    "float v_scale, Tensor(c!) output, Tensor? key, Tensor? value, Tensor? loc, "
    "Tensor attn_logits, Tensor req_to_token, Tensor req_pool_indices, Tensor seq_lens, "
    "float sm_scale, float logit_cap, bool is_cross_attn, int sliding_window_size, "
    "Tensor? encoder_lens, Tensor? sinks) -> ()"
)
_library.impl("decode_attention_cpu", _decode, "CPU")
_library.define(
    "extend_attention_cpu(Tensor q_extend, Tensor? k_extend, Tensor? v_extend, "
    "Tensor(a!) o_extend, Tensor k_buffer, Tensor v_buffer, float k_scale, float v_scale, "
    "Tensor req_to_token, Tensor req_pool_indices, Tensor seq_lens, Tensor extend_seq_lens, "
    "Tensor extend_start_loc, int max_len_extend, float sm_scale, float logit_cap, "
    "bool is_cross_attn, int sliding_window_size, Tensor? encoder_lens, Tensor? sinks, "
    "Tensor? tree_mask, bool is_causal) -> ()"
)
_library.impl("extend_attention_cpu", _extend, "CPU")
