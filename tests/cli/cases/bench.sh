source "$SOURCE/tests/cli/cases/lib.inc"; make_run
"$RECKON" bench run.yaml --steps 2 | sed -E -e '1,2d' -e '/^(Even more time|The machine is busy)/d' -e 's/ +[0-9.]+/ N/g' -e 's/%.*/%/' -e "s/longest stage is '[a-z ]+'/longest stage is STAGE/"
"$RECKON" bench run.yaml --steps 2 --json | sed -E 's/: *-?[0-9.]+(e[-+]?[0-9]+)?/: N/g; s/"isa": "[a-z0-9]+"/"isa": ISA/'
"$RECKON" bench run.yaml --steps 7 --json | grep -o '"steps": 7, "batch_size": [0-9]*'
