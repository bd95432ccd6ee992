"""Trees of draft tokens: built from what the draft selected, and walked when they are verified.

A tree of n nodes is held as links: a node's first child and its next sibling, -1 for none. Node 0
is the root, the last token that is certain.
"""

import torch
from torch import Tensor

NONE = -1
FULL_MASK = 0


def build_tree_kernel_efficient_cpu(
    parent_list: Tensor,
    selected_index: Tensor,
    verified_seq_len: Tensor,
    tree_mask: Tensor,
    positions: Tensor,
    retrieve_index: Tensor,
    retrieve_next_token: Tensor,
    retrieve_next_sibling: Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """Fill links, positions and the attention mask of each request's tree."""
    nodes = draft_token_num
    mask_out, positions_out, written = tree_mask.view(-1), positions.view(-1), 0
    for request, length in enumerate(verified_seq_len.tolist()):
        parents = _parents(
            selected_index[request].tolist(), parent_list[request].tolist(), topk, nodes
        )
        child, sibling = _links(parents)
        first = request * nodes
        retrieve_index[request].copy_(torch.arange(first, first + nodes))
        retrieve_next_token[request].copy_(torch.tensor(child))
        retrieve_next_sibling[request].copy_(torch.tensor(sibling))
        mask, depths = _ancestors(parents, depth)
        positions_out[first : first + nodes] = torch.tensor(depths).to(positions.dtype) + length
        if int(tree_mask_mode) == FULL_MASK:
            width = length + nodes
            part = mask_out[written : written + nodes * width].view(nodes, width)
            part[:, length:] = mask.to(tree_mask.dtype)
            written += nodes * width
        else:
            square = nodes * nodes
            mask_out[request * square : (request + 1) * square] = mask.reshape(-1)


def _parents(selected: list[int], parent_list: list[int], topk: int, nodes: int) -> list[int]:
    """Each node's parent. The draft names a node by its place among all candidates."""
    node_of: dict[int, int] = {}
    for node, candidate in enumerate(selected[: nodes - 1], start=1):
        node_of.setdefault(candidate, node)
    parents = [NONE] * nodes
    for node in range(1, nodes):
        group = selected[node - 1] // topk
        parents[node] = 0 if group == 0 else node_of.get(parent_list[group], NONE)
    return parents


def _links(parents: list[int]) -> tuple[list[int], list[int]]:
    """First child and next sibling of each node; children in order of their numbers."""
    child, sibling = [NONE] * len(parents), [NONE] * len(parents)
    for node in reversed(range(len(parents))):
        parent = parents[node]
        if parent != NONE:
            sibling[node], child[parent] = child[parent], node
    return child, sibling


def _ancestors(parents: list[int], depth: int) -> tuple[Tensor, list[int]]:
    """Which nodes each node sees (itself, its ancestors, the root), and how deep it lies."""
    mask = torch.zeros((len(parents), len(parents)), dtype=torch.bool)
    mask[:, 0] = True
    depths = []
    for node in range(len(parents)):
        at, level = node, 0
        while at > 0 and level < depth:
            mask[node, at] = True
            at, level = max(parents[at], 0), level + 1
        depths.append(level)
    return mask, depths


def verify_tree_greedy_cpu(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:
    """Walk down each tree as long as a child is the target's most likely token."""
    best = target_predict.reshape(-1).tolist()
    for request in range(candidates.shape[0]):
        drafted, place = candidates[request].tolist(), retrive_index[request].tolist()
        child = retrive_next_token[request].tolist()
        sibling = retrive_next_sibling[request].tolist()
        path = [0]
        while len(path) < accept_index.shape[1]:
            node = child[path[-1]]
            while node != NONE and drafted[node] != best[place[path[-1]]]:
                node = sibling[node]
            if node == NONE:
                break
            path.append(node)
        for step, node in enumerate(path):
            accept_index[request, step] = place[node]
            predicts[place[node]] = best[place[node]]
        accept_token_num[request] = len(path) - 1
