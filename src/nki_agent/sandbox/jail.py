"""The jail that a forked child puts on before untrusted code runs, layer by layer.

Law: a layer that the probe found to work is put on in every child, or the child dies and it is our
fault; one that did not work is reported with its reason and never half used. Order matters: a
change of uid clears the parent-death signal and the dumpable flag, Landlock and seccomp need
`no_new_privs`, and seccomp comes last because it refuses what the other layers call.
"""

from __future__ import annotations

import os
import platform
import resource
import signal
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nki_agent.sandbox import landlock
from nki_agent.sandbox.libc import call_number, call_prctl, call_unshare, find_machine
from nki_agent.sandbox.outcome import Layer, LayerState, Limits, Status
from nki_agent.sandbox.seccomp import Filter, make_native_filter
from nki_agent.sandbox.syscalls import CAPSET

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_NO_NEW_PRIVS: Final = 38

CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWNET: Final = 0x40000000

CAPABILITY_VERSION: Final = 0x20080522
"""_LINUX_CAPABILITY_VERSION_3: two words for each of effective, permitted, inheritable."""

OPEN_FILES: Final = 64
"""Descriptors that the warmed process and its children may hold; also what a child closes."""
STACK_BYTES: Final = 64 << 20
"""Deep recursion in C ends here with SIGSEGV; Python's own limit comes long before."""

FIRST_OWN_UID: Final = 2_000_000_000
"""A run's uid is this plus its pid: no other process has it, so none can be signalled or traced."""
NOBODY: Final = 65534
"""Where a container maps few uids, all runs share this one."""

FALLBACK_BASE_BYTES: Final = 1 << 30
"""Address space taken for that of the warmed process where /proc is not mounted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jail:
    """The layers of this machine, prepared once in the warmed process so that a child is quick."""

    status: Status
    base_bytes: int
    ruleset: int | None
    filter: Filter | None
    own_uids: bool

    def enter(
        self, limits: Limits, *, keep: int, parent: int
    ) -> None:  # pragma: no cover - in the child
        """Lock this process for good; of its descriptors only `keep` and 0 to 2 stay open."""
        active = self.status.active
        os.setsid()
        lower_limits(limits, base_bytes=self.base_bytes)
        if Layer.UID in active:
            drop_user(own=self.own_uids)  # and with it all capabilities
        else:
            drop_capabilities()
        call_prctl(PR_SET_NO_NEW_PRIVS, 1)
        die_with(parent)
        call_prctl(PR_SET_DUMPABLE, 0)
        if self.ruleset is not None:
            landlock.apply_ruleset(self.ruleset)
        os.closerange(3, keep)
        os.closerange(keep + 1, OPEN_FILES)
        if self.filter is not None:
            self.filter.apply()


def leave_namespaces(*, is_ringed: bool) -> LayerState:  # pragma: no cover - in the zygote
    """Give this process an empty network, IPC and host name of its own."""
    if is_ringed:
        detail = "no network, IPC, host name or processes"
        return LayerState(Layer.NAMESPACES, active=True, detail=detail)
    is_root = os.geteuid() == 0
    flags = CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
    try:
        call_unshare(flags if is_root else flags | CLONE_NEWUSER)
    except OSError as error:
        return LayerState(Layer.NAMESPACES, active=False, detail=str(error))
    if not is_root:
        drop_capabilities()
    return LayerState(Layer.NAMESPACES, active=True, detail="no network, IPC or host name")


def prepare_jail(readable: Iterable[str], *, ring: LayerState, namespaces: LayerState) -> Jail:
    """Find out, in children that end at once, which layers work here."""
    ruleset, landlock_detail = _try_landlock(readable)
    program, seccomp_detail = _try_seccomp(may_open=ruleset is not None)
    own_uids, uid = _probe_user()
    layers = (
        ring,
        LayerState(Layer.RLIMITS, active=True, detail="memory, CPU, files, processes, stack"),
        namespaces,
        uid,
        LayerState(Layer.LANDLOCK, active=ruleset is not None, detail=landlock_detail),
        LayerState(Layer.SECCOMP, active=program is not None, detail=seccomp_detail),
    )
    return Jail(
        status=Status(layers),
        base_bytes=read_address_space_bytes(),
        ruleset=ruleset,
        filter=program,
        own_uids=own_uids,
    )


def lower_limits(limits: Limits, *, base_bytes: int) -> None:  # pragma: no cover - in the child
    """Set a run's own resource limits; one that is lower already stays."""
    _lower(resource.RLIMIT_AS, base_bytes + limits.memory_bytes)
    _lower(resource.RLIMIT_FSIZE, limits.file_bytes)
    _lower(resource.RLIMIT_NPROC, 0)
    # The soft CPU limit ends it with SIGXCPU, which names the cause; the hard one can't be caught.
    _lower(resource.RLIMIT_CPU, limits.cpu_seconds, grace=1)


def lower_common_limits() -> None:  # pragma: no cover - in the zygote
    """Set the limits that the warmed process shares with its children."""
    _lower(resource.RLIMIT_NOFILE, OPEN_FILES)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_MEMLOCK, 0)
    _lower(resource.RLIMIT_MSGQUEUE, 0)
    _lower(resource.RLIMIT_STACK, STACK_BYTES)


def drop_user(*, own: bool) -> None:  # pragma: no cover - in the child
    """Become a user without rights: one that only this process has, or nobody."""
    uid = FIRST_OWN_UID + os.getpid() if own else NOBODY
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def drop_capabilities() -> None:  # pragma: no cover - in the child
    """Give up every capability, also those of a user namespace."""
    header = struct.pack("=Ii", CAPABILITY_VERSION, 0)
    call_number(CAPSET[find_machine()], header, bytes(24))


def die_with(parent: int) -> None:  # pragma: no cover - in the child
    """Have Linux kill this process when `parent` ends."""
    call_prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise OSError("the warmed process ended")


def hide_memory() -> None:  # pragma: no cover - in the zygote
    """No core dump, and no other process of the same user may trace or read this one."""
    call_prctl(PR_SET_DUMPABLE, 0)


def read_address_space_bytes() -> int:
    """Size of this process's address space."""
    try:
        num_pages = int(Path("/proc/self/statm").read_bytes().split()[0])
    except OSError:
        return FALLBACK_BASE_BYTES
    return num_pages * resource.getpagesize()


def explain_failure(layer: Callable[[], object]) -> str:
    """Try a layer in a child that ends at once; why it failed, or nothing."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - in the child
        try:
            layer()
        except BaseException as error:  # noqa: BLE001 - the process ends here, whatever it was
            os.write(writer, str(error).encode()[:1000] or b"failed")
        finally:
            os._exit(0)
    os.close(writer)
    text = os.read(reader, 1000)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    return text.decode(errors="replace") or ("" if status == 0 else f"ended with {status}")


def _lower(name: int, value: int, *, grace: int = 0) -> None:  # pragma: no cover - in the child
    """Lower a limit, the hard one to `grace` more; RLIM_INFINITY is -1 in Python."""
    _, ceiling = resource.getrlimit(name)
    hard = value + grace if ceiling == resource.RLIM_INFINITY else min(value + grace, ceiling)
    resource.setrlimit(name, (min(value, hard), hard))


def _try_landlock(readable: Iterable[str]) -> tuple[int | None, str]:
    try:
        ruleset = landlock.make_ruleset(readable)
    except OSError as error:
        return None, str(error)

    def restrict() -> None:  # pragma: no cover - in the child
        call_prctl(PR_SET_NO_NEW_PRIVS, 1)
        landlock.apply_ruleset(ruleset)

    if failure := explain_failure(restrict):
        os.close(ruleset)
        return None, failure
    return ruleset, landlock.describe()


def _try_seccomp(*, may_open: bool) -> tuple[Filter | None, str]:
    try:
        program = make_native_filter(may_open=may_open)
    except OSError as error:
        return None, str(error)

    def restrict() -> None:  # pragma: no cover - in the child
        call_prctl(PR_SET_NO_NEW_PRIVS, 1)
        program.apply()

    if failure := explain_failure(restrict):
        return None, failure
    opens = "reads files" if may_open else "opens no file (no Landlock)"
    return program, f"allow-list for {platform.machine()}, {opens}"


def _probe_user() -> tuple[bool, LayerState]:
    """Whether each run can have a uid of its own, and the state of the layer."""
    if os.geteuid() != 0:
        detail = "not root: runs as the user"
        return False, LayerState(Layer.UID, active=False, detail=detail)
    if not explain_failure(lambda: drop_user(own=True)):
        return True, LayerState(Layer.UID, active=True, detail="each run has a uid of its own")
    if failure := explain_failure(lambda: drop_user(own=False)):
        return False, LayerState(Layer.UID, active=False, detail=failure)
    return False, LayerState(Layer.UID, active=True, detail="all runs are nobody")
