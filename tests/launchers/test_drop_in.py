"""A drop-in says exactly what the launch says, in systemd's own quoting."""

from specbench.hosts.command import Launch
from specbench.launchers.systemd.drop_in import quote_word, render_drop_in
from specbench.model.host import Address

GOLDEN = """\
# Written by specbench for one launch; removed when the run ends (specbench hosts restore).
[Service]
ExecStart=
ExecStart="/opt/python" "-m" "sglang.launch_server" "--model-path" "/models/a b" "--x" "50%%$$HOME"
Environment="A=it's \\"100%%\\" $HOME\\\\\\nnext"
EnvironmentFile=/run/x.env
WorkingDirectory=/work dir
Restart=no
KillMode=mixed
SendSIGKILL=yes
TimeoutStopSec=60
TimeoutStartSec=infinity
StandardOutput=journal
StandardError=journal
LogRateLimitIntervalSec=0
CPUAccounting=yes
IOAccounting=yes
"""

LAUNCH = Launch(
    argv=("/opt/python", "-m", "sglang.launch_server", "--model-path", "/models/a b",
          "--x", "50%$HOME"),
    env={"A": 'it\'s "100%" $HOME\\\nnext', "HF_TOKEN": 'a"$b`\\'},
    address=Address(host="127.0.0.1", port=30000),
    workdir="/work dir",
)  # fmt: skip


def test_the_drop_in_is_the_golden_one_and_shows_no_secret() -> None:
    texts = render_drop_in(LAUNCH, secrets_path="/run/x.env", stop_timeout_s=60.0)

    assert texts.unit == GOLDEN
    assert texts.secrets == 'HF_TOKEN="a\\"\\$b\\`\\\\"\n'


def test_without_secrets_there_is_no_file_of_them() -> None:
    plain = Launch(argv=("/x",), env={}, address=LAUNCH.address)

    texts = render_drop_in(plain, secrets_path="/run/x.env", stop_timeout_s=1.5)

    assert "EnvironmentFile" not in texts.unit
    assert texts.secrets == ""


def test_every_word_is_one_line_and_quoted() -> None:
    assert quote_word('a;b "c" \t\r\n') == '"a;b \\"c\\" \\t\\r\\n"'
