"""`reckon serve` as a process: started, met at the port that it says, ended."""
import re
import signal
import subprocess
import threading


class ServerProcess:
    """Started by `command`; a skipped test where the program cannot serve. At its end `log` is what it said."""

    def __init__(self, command, **how):
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **how)
        self.lines, self.told = [], False
        while not (found := re.search(r"port (\d+)", self.lines[-1] if self.lines else "")):
            self.lines.append(self.process.stderr.readline())
            if not self.lines[-1]:
                self.process.wait()
                raise SystemExit(77 if "libmicrohttpd" in "".join(self.lines) else f"the server did not start: {self.lines}")
        self.port = int(found[1])
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True)  # a full pipe would hold the server up
        self.reader.start()

    def stop(self):
        """Once: a second signal ends it at once."""
        if not self.told and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.told = True

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.stop()
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the server does not end") from None
        self.reader.join()
        self.log = "".join(self.lines)
        assert code == 0 and "Sanitizer" not in self.log, (code, self.log[-3000:])
