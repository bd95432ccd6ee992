"""A throw-away server that speaks as SGLang does while it loads, and fails in the ways asked for.

It stands in for a server where a test is about launching; it generates no text. Standard library
only, so that any Python of any host can run it.
"""

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HEALTHY = """\
server_args=ServerArgs(model_path='{model}')
Load weight begin. avail mem=140.11 GB
Loading safetensors checkpoint shards:   0% Completed | 0/2 [00:00<?, ?it/s]
Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.00s/it]
Loading safetensors checkpoint shards: 100% Completed | 2/2 [00:02<00:00,  1.00s/it]
Load weight end. elapsed=2.10 s, type=LlamaForCausalLM, avail mem=100.00 GB, mem usage=40.00 GB.
KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1000, K size: 1.00 GB, V size: 1.00 GB
Memory pool end. avail mem=20.00 GB
Capture target verify CUDA graph begin. backend=fa3, num_tokens_per_req=8, avail mem=20.00 GB
Capturing batches (bs=1 avail_mem=19.00 GB): 100%|##########| 4/4 [00:01<00:00,  4.00it/s]
max_total_num_tokens=1000, chunked_prefill_size=8192, max_running_requests=48, context_len=4096
"""


def tell(text: str) -> None:
    sys.stderr.write(text + "\n")


def say(text: str) -> None:
    stamp = time.strftime("[%Y-%m-%d %H:%M:%S] ")
    for line in text.splitlines():
        tell(stamp + line)


class Answers(BaseHTTPRequestHandler):
    options: argparse.Namespace
    aborted = False

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, document: object = "") -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        options = self.options
        match self.path.partition("?")[0]:
            case "/health" if options.node_rank:
                self.answer(200)
            case _ if options.node_rank:
                self.answer(404)
            case "/health" if options.scenario != "never-healthy":
                self.answer(200)
            case "/model_info":
                self.answer(
                    200,
                    {"model_path": options.claim_model or options.model_path,
                     "served_model_name": options.served_model_name},
                )  # fmt: skip
            case "/server_info":
                algorithm = options.speculative_algorithm
                info = {"speculative_algorithm": algorithm, "version": "0.5.23",
                        "api_key": "sesame", "speculative_num_steps": 3,
                        "model_path": options.model_path}  # fmt: skip
                self.answer(200, info)
            case _:
                self.answer(503 if self.path.startswith("/health") else 404)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.options.scenario == "canary-fails" and self.path == "/generate":
            self.answer(500, {"error": {"message": "no kernel image"}})
        else:
            self.answer(200, {"text": " Paris"})


def main() -> None:
    parser = argparse.ArgumentParser(prog="fake_server")
    parser.add_argument("--scenario", default="healthy")
    parser.add_argument("--claim-model", default="")
    parser.add_argument("--seconds", type=int, default=10, help="of the scenario slow")
    parser.add_argument("--model-path", default="")
    parser.add_argument("--served-model-name", default="")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--speculative-algorithm")
    parser.add_argument("--speculative-num-steps")
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--dist-init-addr")
    options = parser.parse_args()
    options.scenario = os.environ.get("SPECBENCH_TEST_SCENARIO", options.scenario)
    Answers.options = options
    tell("environment: " + os.environ.get("SPECBENCH_TEST_WORD", ""))
    if options.scenario == "ignores-sigterm":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if options.scenario in {"children", "ignores-sigterm"}:
        stray = "import os, time; os.setsid(); time.sleep(600)"
        for code in ("import time; time.sleep(600)", stray):
            child = subprocess.Popen([sys.executable, "-c", code])
            tell(f"child {child.pid}")
    lines = HEALTHY.format(model=options.model_path).splitlines()
    say("\n".join(lines[:9]))
    match options.scenario:
        case "oom":
            say("Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB.")
            tell("Possible solutions:\n1. set --mem-fraction-static to a smaller value")
            say("Received sigquit from a child process. It usually means the child failed.")
            os.kill(os.getpid(), signal.SIGKILL)
        case "hangs":
            time.sleep(3600)
        case "fatal-line-but-lives":
            say("Scheduler hit an exception: Traceback (most recent call last):")
            tell('  File "scheduler.py", line 1, in run\nRuntimeError: boom 17')
            time.sleep(3600)
        case "exits-silently":
            sys.exit(3)
        case "slow":
            for second in range(options.seconds):
                say(f"Capturing batches (bs=1):  {second}0%|#| {second}/10 [00:01<00:09]")
                select.select([], [], [], 1.0)  # sleep fails where a test has set the clock aside
    say("\n".join(lines[9:]))
    server = ThreadingHTTPServer((options.host, options.port), Answers)
    say(f"Uvicorn running on http://{options.host}:{options.port}")
    say("The server is fired up and ready to roll!")
    server.serve_forever()


if __name__ == "__main__":
    main()
