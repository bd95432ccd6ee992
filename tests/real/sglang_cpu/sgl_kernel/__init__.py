"""The kernels that SGLang 0.5.23 looks up under the name `sgl_kernel` when it serves on a CPU.

No package has them for processors without AMX. These do what the callers in SGLang expect, in plain
torch and loops: exact, slow, meant for models of a few million parameters.
"""

from sgl_kernel import attention  # noqa: F401  registers operators
from sgl_kernel.caches import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    build_draft_decode_metadata_cpu,
    copy_all_layer_kv_cache_cpu,
    fill_accept_out_cache_loc_cpu,
    fill_bonus_tokens_cpu,
    rotate_input_ids_cpu,
)
from sgl_kernel.trees import build_tree_kernel_efficient_cpu, verify_tree_greedy_cpu

__version__ = "0+specbench.test"

__all__ = [
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_draft_decode_metadata_cpu",
    "build_tree_kernel_efficient_cpu",
    "copy_all_layer_kv_cache_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "rotate_input_ids_cpu",
    "verify_tree_greedy_cpu",
]
