"""What is known of the values in SGLang's `/server_info` where two launches are compared."""

from specbench.backends.backend import RecordedValues

VALUES = RecordedValues(
    volatile=(
        "*.startup_time*", "*.launch_command", "*.last_gen_throughput", "*.avg_spec_accept_length",
        "*.step_time_dict*", "*.memory_usage.*", "*.decode_cuda_graph_memory_gb", "*.kv_events*",
        "*.env_vars.*", "server.served_model_name", "*.virtual_time*",
        "server.specbench_engine.*steps",
    ),
    # Memory left for KV is measured at each start, so it is listed and never refused.
    capacity=(
        "*.max_total_num_tokens", "*.token_capacity*", "*.max_req_input_len", "*.kv_cache_*",
    ),
    # Its own arguments, and what it resolves differently beside a drafter when nobody set it.
    forced=(
        "*dflash*", "*ddtree*", "server.*mem_fraction_static", "server.*page_size",
        "server.*cuda_graph_bs*", "server.*cuda_graph_max_bs*",
    ),
    lossy=("*accept_threshold*", "*accept-threshold*"),
    caps=(
        "*.max_running_requests", "*.effective_max_running_requests_per_dp",
        "*.max-running-requests",
    ),
    state="server.internal_states.",
)  # fmt: skip
