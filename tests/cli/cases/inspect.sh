source "$SOURCE/tests/cli/cases/lib.inc"; make_run
"$RECKON" inspect run.yaml
