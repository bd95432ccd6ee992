"""Links of a tree from its attention mask, for drafts copied from earlier text (NGRAM)."""

import torch
from torch import Tensor

from sgl_kernel.trees import NONE, _links


def reconstruct_indices_from_tree_mask(
    tree_mask: Tensor,
    verified_seq_len: Tensor,
    positions: Tensor,
    retrieve_index: Tensor,
    retrieve_next_token: Tensor,
    retrieve_next_sibling: Tensor,
    batch_size: int,
    draft_token_num: int,
) -> None:
    """Fill links and positions of each request's tree. A node's parent is its nearest ancestor."""
    count, nodes = batch_size, draft_token_num
    if count == 0:
        return
    flat = tree_mask.view(torch.bool).reshape(-1)[: count * nodes * nodes]
    number = torch.arange(nodes)
    above = flat.view(count, nodes, nodes) & (number[None, :] < number[:, None])
    depths = above.sum(-1)
    lengths = verified_seq_len[:count, None].to(depths.dtype)
    positions[: count * nodes].copy_((depths + lengths).reshape(-1))
    retrieve_index[:count].copy_(torch.arange(count * nodes).view(count, nodes))
    nearest = torch.where(above, number, NONE).amax(-1)
    for request, parents in enumerate(nearest.tolist()):
        child, sibling = _links(parents)
        retrieve_next_token[request].copy_(torch.tensor(child))
        retrieve_next_sibling[request].copy_(torch.tensor(sibling))
