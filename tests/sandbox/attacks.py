"""What hostile source tries, and how each try must end."""

import inspect
import platform
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from nki_agent.sandbox.pool import Limits, Outcome, OutcomeKind, Sandbox
from tests.source import PACKAGE, ROOT

HOME = Path.home()
FOLDER = ROOT / "tests" / "sandbox"
ENTRY = "running:run_source"
PRELOAD = ("numpy", "ctypes", "socket", "subprocess", "threading", "resource", "mmap")
LIMITS = Limits(seconds=5.0, cpu_seconds=5, memory_bytes=512 << 20, result_bytes=1 << 20)
ONE_CPU_SECOND = Limits(seconds=20.0, cpu_seconds=1)
SHORT = Limits(seconds=0.4, cpu_seconds=5, memory_bytes=512 << 20, result_bytes=1 << 20)

REFUSED = r"PermissionError|Operation not permitted|Permission denied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """Source of `run`, the end it must have, and what the detail must say."""

    name: str
    body: str
    end: OutcomeKind = OutcomeKind.RAISED
    says: str = REFUSED
    limits: Limits = LIMITS

    @property
    def source(self) -> str:
        """A module that defines `run`."""
        body = textwrap.indent(inspect.cleandoc(self.body), "    ")
        return f"def run():\n{body}\n"

    def check(self, outcome: Outcome) -> None:
        """Assert that it ended as it must."""
        assert outcome.kind is self.end, (self.name, outcome)
        assert outcome.data == b""
        assert re.search(self.says, outcome.detail), (self.name, outcome)


def start_sandbox(*, allow_unsandboxed: bool = False) -> Sandbox:
    """A sandbox that runs source."""
    return Sandbox(
        ENTRY,
        limits=LIMITS,
        preload=PRELOAD,
        import_paths=(str(FOLDER),),
        allow_unsandboxed=allow_unsandboxed,
    )


def run_source(sandbox: Sandbox, body: str, *, limits: Limits = LIMITS) -> Outcome:
    """Run the body of a function."""
    source = Attack(name="", body=body).source
    return sandbox.run(source.encode(), limits=limits)


def _is(
    name: str,
    body: str,
    end: OutcomeKind = OutcomeKind.RAISED,
    says: str = REFUSED,
    limits: Limits = LIMITS,
) -> Attack:
    return Attack(name=name, body=body, end=end, says=says, limits=limits)


USE_UP = (
    _is("loop for ever", "while True: pass", OutcomeKind.TIMEOUT, "0.4 s", SHORT),
    _is("sleep", "time.sleep(60)", OutcomeKind.TIMEOUT, "0.4 s", SHORT),
    _is(
        "ignore every signal and loop",
        """
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        while True: pass
        """,
        OutcomeKind.TIMEOUT,
        "0.4 s",
        SHORT,
    ),
    _is(
        "burn CPU time", "while True: pass", OutcomeKind.TIMEOUT, "over 1 s of CPU", ONE_CPU_SECOND
    ),
    _is("50 GB of bytes", "bytearray(50 << 30)", OutcomeKind.MEMORY, "bytes of memory"),
    _is("50 GB in NumPy", "np.ones(50 << 27)", OutcomeKind.MEMORY, "bytes of memory"),
    _is(
        "memory little by little",
        """
        kept = []
        while True: kept.append(bytes(8 << 20))
        """,
        OutcomeKind.MEMORY,
        "bytes of memory",
    ),
    _is("map a terabyte", "mmap.mmap(-1, 1 << 40)", says="Cannot allocate memory"),
    _is("huge result", "return bytes((1 << 20) + 1)", OutcomeKind.OVERSIZE, "1048576 bytes"),
    _is(
        "huge result by hand",
        "while True: os.write(max(descriptors()), bytes(1 << 16))",
        OutcomeKind.OVERSIZE,
        "1048576 bytes",
    ),
    _is("deep recursion", "return run()", says="RecursionError"),
    _is(
        "deep recursion in C",
        """
        sys.setrecursionlimit(1 << 30)
        def key(x): return sorted([x], key=key)
        key(0)
        """,
        OutcomeKind.KILLED,
        "SIGSEGV",
    ),
    _is(
        "thread bomb",
        "while True: threading.Thread(target=time.sleep, args=(9,)).start()",
        says="can't start new thread",
    ),
    _is("lock memory", "call(of(149, 228), 0, 4096)"),
    _is("raise a limit", "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))", says="raise maximum"),
    _is(
        "raise a limit back to soft",
        "resource.setrlimit(resource.RLIMIT_CPU, (5, 6))",
        says="raise",
    ),
    _is("take a higher priority", "os.nice(-5)"),
    _is("move to another core", "os.sched_setaffinity(0, {0})"),
)
"""More than its share of the machine."""

END_EARLY = (
    _is("os._exit(0)", "os._exit(0)", OutcomeKind.EXITED, "status 0"),
    _is("os._exit(7)", "os._exit(7)", OutcomeKind.EXITED, "status 7"),
    _is("sys.exit", "sys.exit(3)", OutcomeKind.EXITED, "status 3"),
    _is("sys.exit with a text", "sys.exit('passed')", OutcomeKind.EXITED, "status 1"),
    _is("abort", "os.abort()", OutcomeKind.KILLED, "signal"),
    _is("segfault", "ctypes.string_at(0)", OutcomeKind.KILLED, "SIGSEGV"),
    _is("interrupt", "raise KeyboardInterrupt", says="KeyboardInterrupt"),
    _is(
        "an exception that will not be printed",
        """
        class Mute(Exception):
            def __str__(self): raise Mute
        raise Mute
        """,
        says="cannot be printed",
    ),
    _is(
        "an exception with a long text full of control characters",
        "raise ValueError(chr(27) + '[2J' + 'x' * 100_000_000)",
        says=r"^ValueError: �\[2Jx{200,300} at <string>:\d+$",
    ),
    _is(
        "a forged result on every descriptor",
        """
        for fd in descriptors():
            try: os.write(fd, b'{"verdict": "right"}')
            except OSError: pass
        os._exit(0)
        """,
        OutcomeKind.EXITED,
        "without a result",
    ),
    _is(
        "a forged failure of the machine",
        "os.write(max(descriptors()), b'Fno memory'); os._exit(70)",
        OutcomeKind.EXITED,
        "status 70",
    ),
    _is(
        "a forged length that is short",
        "os.write(max(descriptors()), b'=' + bytes([1] + [0] * 7) + b'xx'); os._exit(0)",
        OutcomeKind.EXITED,
        "without a result",
    ),
    _is(
        "a forged length that is huge",
        "os.write(max(descriptors()), b'=' + b'\\xff' * 8); os._exit(0)",
        OutcomeKind.OVERSIZE,
        "1048576 bytes",
    ),
    _is(
        "an unknown kind of frame",
        "os.write(max(descriptors()), b'?' + bytes(8)); os._exit(0)",
        OutcomeKind.EXITED,
        "without a result",
    ),
    _is(
        "a closed pipe, then sleep",
        "os.closerange(3, 64); time.sleep(60)",
        OutcomeKind.TIMEOUT,
        "0.4 s",
        SHORT,
    ),
    _is(
        "a whole forged frame, then sleep",
        "os.write(max(descriptors()), b'=' + bytes(8)); time.sleep(60)",
        OutcomeKind.TIMEOUT,
        "0.4 s",
        SHORT,
    ),
)
"""An end that the callable did not choose."""

PROCESSES = (
    _is("fork", "os.fork()"),
    _is("vfork", "call(of(58, 220))"),
    _is("clone3", "call(435, 0, 0)", says="not implemented"),
    _is("subprocess", "subprocess.run(['/bin/id'])"),
    _is("posix_spawn", "os.posix_spawn('/bin/id', ['id'], {})"),
    _is("exec", "os.execv('/bin/sh', ['sh', '-c', 'id'])"),
    _is("execveat", "call(of(322, 281), -100, 0, 0, 0, 0)"),
    _is("kill the parent", "os.kill(os.getppid(), signal.SIGKILL)"),
    _is("stop the parent", "os.kill(os.getppid(), signal.SIGSTOP)"),
    _is("kill everything", "os.kill(-1, signal.SIGKILL)"),
    _is("kill the group", "os.killpg(0, signal.SIGKILL)"),
    _is("tgkill", "call(of(234, 131), os.getppid(), os.getppid(), 9)"),
    _is("queue a signal", "call(of(129, 138), os.getppid(), 9, 0)"),
    _is("signal by a descriptor's owner", "FCNTL.fcntl(0, FCNTL.F_SETOWN, os.getppid())"),
    _is("signal by O_ASYNC", "FCNTL.fcntl(0, FCNTL.F_SETFL, os.O_ASYNC)"),
    _is("a timer's signal", "signal.setitimer(signal.ITIMER_REAL, 0.001); time.sleep(9)"),
    _is("pidfd_open", "call(434, os.getppid(), 0)", says="not implemented"),
    _is("ptrace", "call(of(101, 117), 16, os.getppid(), 0, 0)"),
    _is("read another process's memory", "call(of(310, 270), os.getppid(), 0, 0, 0, 0, 0)"),
    _is("write another process's memory", "call(of(311, 271), os.getppid(), 0, 0, 0, 0, 0)"),
    _is("outlive the parent", "call(of(157, 167), 1, 0, 0, 0, 0)"),
    _is("become traceable", "call(of(157, 167), 4, 1, 0, 0, 0)"),
    _is("a new session", "os.setsid()"),
    _is("setuid(0)", "os.setuid(0)"),
    _is("setgroups", "os.setgroups([0])"),
    _is("capset", "call(of(126, 91), 0, 0)"),
    _is("unshare a user namespace", "call(of(272, 97), 0x10000000)"),
    _is("setns", "call(of(308, 268), 0, 0)"),
    _is("chroot", "os.chroot('/')"),
    _is("mount", "call(of(165, 40), 0, 0, 0, 0, 0)"),
    _is("keyctl", "call(of(250, 219), 0, -3)"),
    _is("bpf", "call(of(321, 280), 0, 0, 0)"),
    _is("perf_event_open", "call(of(298, 241), 0, 0, 0, 0, 0)"),
    _is("io_uring", "call(425, 1, 0)", says="not implemented"),
    _is("userfaultfd", "call(of(323, 282), 0)"),
    _is("set the clock", "time.clock_settime(time.CLOCK_REALTIME, 0)"),
    _is("another filter", "call(of(317, 277), 1, 0, 0)"),
    _is("personality", "call(of(135, 92), 0x0040000)"),
    _is("type on the terminal", "FCNTL.ioctl(0, 0x5412, b'x')"),
)
"""Other processes, other rights, other parts of Linux."""

NETWORK = (
    _is("TCP socket", "socket.socket(socket.AF_INET, socket.SOCK_STREAM)"),
    _is("UDP socket", "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)"),
    _is("Unix socket", "socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)"),
    _is("socket pair", "socket.socketpair()"),
    _is("netlink socket", "socket.socket(16, socket.SOCK_RAW, 0)"),
    _is("abstract socket", "socket.socket(socket.AF_UNIX).connect('\\0nki')"),
    _is("look a name up", "socket.getaddrinfo(b'localhost', 80)", says="gaierror|Permission"),
    _is("send on what is open", "call(of(44, 206), max(descriptors()), 0, 0, 0, 0, 0)"),
    _is("message queue", "call(of(240, 180), 0, 0, 0, 0)"),
    _is("shared memory", "call(of(29, 194), 0, 4096, 0o1600)"),
)
"""Anything that leaves the process."""

FILES = (
    _is("write in the current folder", "open('result.json', 'w')"),
    _is("write in /tmp", "open('/tmp/nki-agent-escape', 'w')"),
    _is("write in the home", f"open({str(HOME / 'escape')!r}, 'w')"),
    _is("write in the package", f"open({str(PACKAGE / 'escape.py')!r}, 'w')"),
    _is("append to the package", f"open({str(PACKAGE / '__init__.py')!r}, 'a')"),
    _is("write in shared memory", "open('/dev/shm/nki-agent-escape', 'w')"),
    _is("a file without a name", "os.open('/tmp', os.O_TMPFILE | os.O_RDWR)"),
    _is("openat2", "call(437, -100, 0, 0, 0)", says="not implemented"),
    _is("memfd", "os.memfd_create('x')"),
    _is("mkdir", "os.mkdir('/tmp/nki-agent-escape')"),
    _is("symlink", "os.symlink('/etc/passwd', '/tmp/nki-agent-escape')"),
    _is("hard link", "os.link('/etc/passwd', '/tmp/nki-agent-escape')"),
    _is("rename", "os.rename('/tmp', '/tmp2')"),
    _is("remove", f"os.unlink({str(PACKAGE / '__init__.py')!r})"),
    _is("truncate", f"os.truncate({str(PACKAGE / '__init__.py')!r}, 0)"),
    _is("chmod", f"os.chmod({str(PACKAGE / '__init__.py')!r}, 0o777)"),
    _is("chown", f"os.chown({str(PACKAGE / '__init__.py')!r}, 0, 0)"),
    _is("touch", f"os.utime({str(PACKAGE / '__init__.py')!r})"),
    _is("make a device", "os.mknod('/tmp/nki-agent-escape', 0o20666, os.makedev(1, 3))"),
    _is("read /etc/shadow", "open('/etc/shadow').read()"),
    _is("read /etc/passwd", "open('/etc/passwd').read()"),
    _is("read this test", f"open({str(FOLDER / 'attacks.py')!r}).read()"),
    _is("read the project's settings", f"open({str(ROOT / 'pyproject.toml')!r}).read()"),
    _is("read another room", f"open({str(PACKAGE / '__init__.py')!r}).read()"),
    _is("list /", "os.listdir('/')"),
    _is("list /root", "os.listdir('/root')"),
    _is("list /home", "os.listdir('/home')"),
    _is("list the home", f"os.listdir({str(HOME)!r})"),
    _is("list /proc", "os.listdir('/proc')"),
    _is("list the current folder", "os.listdir('.')"),
    _is("another's environment", "open(f'/proc/{os.getppid()}/environ').read()"),
    _is("another's command line", "open('/proc/1/cmdline').read()"),
    _is("own environment", "open('/proc/self/environ').read()"),
    _is("own memory", "open('/proc/self/mem', 'r+b')"),
    _is("own maps", "open('/proc/self/maps').read()"),
    _is("a descriptor opened anew", "open(f'/proc/self/fd/{max(descriptors())}', 'w')"),
    _is("a device", "open('/dev/zero', 'rb').read(1)"),
    _is("kernel memory", "open('/dev/kmem', 'rb')", says=f"{REFUSED}|No such file"),
    _is("where a link leads", "os.readlink(f'/proc/{os.getppid()}/cwd')"),
    _is("open by handle", "call(of(304, 265), -100, 0, 0)"),
    _is("watch files", "call(of(294, 26), 0)"),
)
"""Reading what is not the library, writing anything."""

OTHER_TABLES = (
    _is("a call through x32", "call(0x40000000 | 39)", OutcomeKind.KILLED, "SIGSYS"),
    _is(
        "a call through int 0x80",
        """
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(bytes.fromhex("b814000000cd80c3"))
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        """,
        OutcomeKind.KILLED,
        "SIGSYS|SIGSEGV",
    ),
)
"""System calls past the filter's own table; x86_64 only."""

ATTACKS = (
    *USE_UP,
    *END_EARLY,
    *PROCESSES,
    *NETWORK,
    *FILES,
    *(OTHER_TABLES if platform.machine() == "x86_64" else ()),
)
