"""Bare Debian 12 roots, for what has to run where nothing else is installed."""
import os
import shutil
import subprocess


class Missing(Exception):
    """Why there is none."""


def base(folder):
    """RK_DEBIAN_ROOT, a bare Debian 12 that is there already, or one that debootstrap makes in the folder."""
    if os.geteuid() != 0:
        raise Missing("it needs root")
    told = os.environ.get("RK_DEBIAN_ROOT")
    if told:
        return told
    if not shutil.which("debootstrap"):
        raise Missing("debootstrap is not installed")
    if subprocess.run(["debootstrap", "--variant=minbase", "bookworm", folder / "debian"], stdout=subprocess.DEVNULL).returncode:
        raise Missing("Debian packages cannot be loaded")
    return folder / "debian"


# $ORIGIN, by which programs find libraries beside them, needs /proc. It is mounted for the command alone.
_IN_ROOT = 'mount -t proc proc "$1/proc" 2>/dev/null; exec chroot --userspec="$2" "$1" /bin/sh -c \'cd "$1" && shift && exec "$@"\' sh "$3" "${@:4}"'


class Root:
    """A copy of a base, in which commands run, with a /proc."""

    def __init__(self, base, root):
        subprocess.run(["cp", "-a", base, root], check=True)
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        self.root, self.folder, self.user = root, "/", "0:0"
        self.environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}

    def argv(self, command):
        return ["unshare", "--mount", "/bin/bash", "-c", _IN_ROOT, "bash", self.root, self.user, self.folder, *command]

    def run(self, command, **how):
        return subprocess.run(self.argv(command), env=self.environment, **how)

    def inside(self, path):
        return self.root / path.lstrip("/") if path.startswith("/") else self.root / self.folder.lstrip("/") / path
