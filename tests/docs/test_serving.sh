#!/usr/bin/env bash
# Runs the commands of docs/serving.md, every ```sh block in its order, as a reader would; but for the port, of which others on this machine may be fond.
#     test_serving.sh SOURCE_DIR PROGRAM      77 (a skipped test) without curl, or where the program cannot serve
set -euo pipefail
source_dir=$(readlink -f "$1") program=$(readlink -f "$2")
command -v curl >/dev/null || { echo "skipped: curl is not installed" >&2; exit 77; }
work=$(mktemp -d)
trap "rm -rf $work" EXIT
mkdir -p "$work/root/build"
ln -s "$program" "$work/root/build/reckon"
ln -s "$source_dir/data" "$source_dir/examples" "$work/root"
cd "$work/root"

build/reckon serve nowhere 2>&1 | grep -q libmicrohttpd && { echo "skipped: this build cannot serve" >&2; exit 77; }
read -r port < <(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
awk '/^```/ { inside = $0 == "```sh"; next } inside' "$source_dir/docs/serving.md" |
    sed -e "s/8501/$port/g" -e "s|build/reckon health 2>|build/reckon health 127.0.0.1:$port 2>|" -e "s|reckon serve runs/adult|reckon serve --listen 127.0.0.1:$port runs/adult|" >commands
[ "$(grep -c '^curl' commands)" -ge 5 ] || { echo "the page's commands were not found" >&2; exit 1; }
# -m: a job of its own each, as at a prompt. A job that is left is ended.
timeout -k 5 240 bash -emuo pipefail -c 'trap "kill %1 2>/dev/null || true" EXIT; . ./commands' </dev/null >out 2>err || { cat out; tail -n 20 err >&2; exit 1; }

# The first person of the test file: what predict says, and the server, to the digits that predict prints.
said=$(sed -n "s/^{\"predictions\": \[\([0-9.e-]*\)\].*/\1/p" out)
wanted=$(grep -m 1 -oE '(^|,)0\.[0-9]+$' out | tr -d ,)
awk -v a="$said" -v b="$wanted" 'BEGIN { exit !(a > 0 && a < 1 && sprintf("%.5f", a) == sprintf("%.5f", b)) }' || { echo "the server says '$said', predict '$wanted'" >&2; exit 1; }
# The same person is the first of three in columns.
sed -n '/^{"outputs"/p' out | grep -q "\[$said, " || { echo "the answer in columns begins otherwise than $said" >&2; exit 1; }
grep -q '^{"error": "column .* is missing' out && grep -q 'code="400"' out || { echo "no answer names the missing column" >&2; cat out; exit 1; }
