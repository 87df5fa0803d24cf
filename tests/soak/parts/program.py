"""Runs the program, and says at once what no run may do: end by a signal, hang, fail without a clear word, leave files behind."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
SANITIZERS = re.compile(r"(AddressSanitizer|ThreadSanitizer|LeakSanitizer|runtime error:)")


class Failure(Exception):
    """A promise that was broken."""


class Refused(Exception):
    """The program refuses the case, with a clear word."""


def count_writes(session):
    """Calls of write by a session's processes so far."""
    n = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) == session:
                n += int(re.search(r"syscw: (\d+)", (folder / "io").read_text())[1])
        except OSError:  # it has ended
            pass
    return n


class Ended:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def error(self):
        """The messages that it ended with: over ranks the reason is the first."""
        lines = self.err.splitlines()
        firsts = [i for i, line in enumerate(lines) if re.match(r"(reckon: )?error", line)]
        return "\n".join(lines[firsts[0] :]) if firsts else ""


class Program:
    """The program in a folder; what it is asked is kept, so that a failure can say how to see it."""

    def __init__(self, reckon, work, points, keeps_rows, timeout=60):
        self.reckon, self.work, self.points, self.timeout, self.said = (
            str(reckon),
            Path(work),
            points,
            timeout,
            [],
        )
        self.cache = str(self.work / "cache") if keeps_rows else "off"

    def environment(self, threads, isa, extra):
        env = {k: v for k, v in os.environ.items() if not k.startswith("RK_")}
        env.update(
            RK_LOG="info",
            RK_THREADS=str(threads),
            RK_CACHE=self.cache,
            ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0",
            **extra,
        )
        env.setdefault(
            "MALLOC_PERTURB_", "173"
        )  # memory that is used after it was given back, or before it was written, shows
        if isa:
            env["RK_ISA"] = isa
        return env

    def start(self, arguments, ranks=1, threads=1, isa=None, **extra):
        command = [self.reckon, *map(str, arguments)]
        if "LD_PRELOAD" in extra:
            command = ["env", f"LD_PRELOAD={extra.pop('LD_PRELOAD')}", *command]
        if ranks > 1:
            command = [str(TOP / "tests/dist/mpirun"), "openmpi", "-n", str(ranks), *command]
        shown = [
            f"{k}={v}" for k, v in {"RK_THREADS": threads, "RK_ISA": isa, **extra}.items() if v is not None
        ]
        self.said.append(" ".join(shown + ["reckon" if c == self.reckon else c for c in command]))
        return subprocess.Popen(
            command,
            cwd=self.work,
            env=self.environment(threads, isa, extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def communicate(self, process):
        """A hang is a while without a write: on a busy disk each of a run's many syncs may take a second."""
        begun = time.monotonic()
        while True:
            writes = count_writes(process.pid)
            try:
                return process.communicate(timeout=self.timeout)
            except subprocess.TimeoutExpired:
                took = time.monotonic() - begun
                if took < 10 * self.timeout and count_writes(process.pid) > writes:
                    continue
                os.killpg(process.pid, signal.SIGKILL)
                err = process.communicate()[1]
                raise Failure(f"hangs: no end within {took:.0f} s\n{err[-2000:]}") from None
            except BaseException:  # Ctrl-C is not for the process, which has a session of its own
                os.killpg(process.pid, signal.SIGKILL)
                raise

    def finish(self, process, killed=False):
        out, err = self.communicate(process)
        ended = Ended(process.returncode, out, err)
        if ended.code < 0 and ended.error() and "ORTE_ERROR_LOG" in err:
            ended.code = 1  # Open MPI's mpirun may die while it says that two ranks ended their run at once
        if SANITIZERS.search(err):
            raise Failure(f"a sanitizer reports\n{err[-4000:]}")
        if not killed and (ended.code < 0 or ended.code > 130 or "on signal" in err):
            raise Failure(f"ended by a signal ({ended.code})\n{err[-2000:]}")
        if not killed and ended.code not in (0, 130) and not ended.error():
            raise Failure(f"ended with {ended.code} without a clear word\n{err[-2000:]}")
        return ended

    def run(self, arguments, killed=False, **how):
        return self.finish(self.start(arguments, **how), killed)

    def ask(self, arguments, **how):
        """What it prints; it must not fail."""
        ended = self.run(arguments, **how)
        if ended.code != 0:
            raise Failure(f"'{' '.join(map(str, arguments))}' failed: {ended.error()}")
        return ended.out

    def train(self, run_file, output, *more, killed=False, **how):
        return self.run(["train", "--quiet", "--output", output, *more, run_file], killed=killed, **how)

    def trained(self, run_file, output, *more, first=False, **how):
        """A training that comes to its end. What it refuses in a case's first run is no failure."""
        ended = self.train(run_file, output, *more, **how)
        if ended.code != 0:
            raise (Refused if first else Failure)(f"train failed: {ended.error()}")
        self.look_for_strays(output)
        return ended

    def look_for_strays(self, output):
        strays = [
            str(p)
            for p in (self.work / output).rglob("*")
            if re.match(r"\.(tmp|old|gone)", p.name) or p.name.endswith(".tmp")
        ]
        if strays:
            raise Failure(f"a finished run leaves {', '.join(strays[:4])}")

    def remove(self, output):
        shutil.rmtree(self.work / output, ignore_errors=True)


def has_mpi():
    return (
        subprocess.run(
            [TOP / "tests/dist/mpirun", "openmpi", "-n", "1", "true"], capture_output=True, check=False
        ).returncode
        == 0
    )


def build_points(folder):
    """The object that kills at the n-th call, or None where it cannot be built."""
    target = Path(folder) / "points.so"
    command = [
        "cc",
        "-std=c11",
        "-O1",
        "-shared",
        "-fPIC",
        "-o",
        target,
        Path(__file__).with_name("points.c"),
        "-ldl",
        "-pthread",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        raise SystemExit("points.c does not compile")
    return target
