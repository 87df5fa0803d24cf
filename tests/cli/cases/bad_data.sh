source "$SOURCE/tests/cli/cases/lib.inc"; make_run
cp train.csv good.csv
try() { "$RECKON" train --quiet run.yaml --output "out$RANDOM"; echo $?; }
sed '17s/.*/abc,job1,city2,0/' good.csv >train.csv; try
sed '17s/.*/31,job1/' good.csv >train.csv; try
sed '17s/.*/31,job1,city2,maybe/' good.csv >train.csv; try
sed '1s/label/lable/' good.csv >train.csv; try
gzip -c good.csv | head -c 700 >train.csv; try
: >train.csv; try
# Numbers that overflow: in training before anything is learned, and in the test data alone.
sed '17s/.*/3e38,job1,city2,0/; 18s/.*/-3e38,job1,city2,0/' good.csv >huge.csv; cp huge.csv train.csv
try() { "$RECKON" train --quiet run.yaml --output "out$RANDOM" --set data.features="[{name: job, vocabulary: {}}, {name: age, dense: true$1}]" \
    --set model='{kind: dcn_v2, deep: [4]}' --set data.valid= --set data.test="$2" | grep -v '^test'; }
try '' ''
cp good.csv train.csv; try ', normalize: true' huge.csv
# Steps that were skipped count in the log, also where it has the test's metrics.
cp huge.csv train.csv
"$RECKON" train --quiet run.yaml --output skips --set data.features="[{name: job, vocabulary: {}}, {name: age, dense: true}]" --set model='{kind: dcn_v2, deep: [4]}' --set data.valid= \
    --set data.test=good.csv --set train.on_not_finite=skip --set train.log_every=1 2>/dev/null | grep -c '^test'
grep -oE '"(train|test)","epoch":[0-9]+,"step":[0-9]+' skips/metrics.jsonl | tail -2
