"""The embedded reference engine: an island that shares no code with what judges it."""

import os

# Read by numpy's BLAS when it is first imported: the engine's products are small, and threads that
# wait for each other on a busy machine made its training ten times slower.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
