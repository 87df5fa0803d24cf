# A path in a run file is relative to the file; one on the command line to where the user stands. Eval and resume find the data from elsewhere too.
source "$SOURCE/tests/cli/cases/lib.inc"; make_run
run() { "$RECKON" "$@" | sed -E 's/[0-9]+\.[0-9]+/N/g'; echo "exit ${PIPESTATUS[0]}"; }
mkdir sub elsewhere
sed -e '1,20d' train.csv >body; { head -1 train.csv; cat body; } >here.csv
mv run.yaml train.csv sub/
run train -q --set data.train=here.csv --set 'data.test={path: [here.csv]}' -o out sub/run.yaml
ls -d out sub/out 2>/dev/null
"$RECKON" inspect --config-only --set 'data.valid=here.csv' --set 'cluster.plan=plan.yaml' sub/run.yaml | grep -E 'csv|plan'
cd elsewhere
run eval ../out
run train -q --resume --set data.train=../here.csv --set data.test=../here.csv --set train.epochs=4 -o ../out ../sub/run.yaml
cd ..; mv sub moved; cp moved/train.csv .
run train -q -o out2 moved/run.yaml; mv moved again; cp again/train.csv .
run eval out2
mkdir names; cd names # whatever a directory is called, it is that one
for o in '[x]' 'a #b' 'a: b' '#c' '&d' "it's" 'q"\' $'two\nlines'; do
    "$RECKON" train -q --set train.epochs=1 --output "$o" ../again/run.yaml >/dev/null && ls -d "$o/checkpoints" || echo "exit $?"
done
"$RECKON" train -q -o '' ../again/run.yaml; echo "exit $?"
"$RECKON" train -q --set 'train.output=""' ../again/run.yaml; echo "exit $?"
ls -A1b
