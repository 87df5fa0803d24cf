# Tables of 2,000,000,000 rows are sized in little memory: neither inspect nor a plan takes any for rows.
source "$SOURCE/tests/cli/cases/lib.inc"; make_run
sed -i -e 's/hash: 16/hash: 2000000000/' -e 's/dim: 4/dim: 64/' run.yaml
(ulimit -v 2000000; "$RECKON" --version; exit $?) >/dev/null 2>&1 && ulimit -v 2000000 # a sanitizer's shadow memory is over any limit
"$RECKON" inspect run.yaml | grep -E '^  (job|city|total) '; echo "exit ${PIPESTATUS[0]}"
"$RECKON" plan --ranks 2 run.yaml 2>stderr | grep -E '^  (job|city) .*(replicated|row_wise)'
grep -v "does not fit" stderr || true
