# Rows that expire by the stream's own time: `data.timestamp` and `eviction.ttl`.
awk 'BEGIN { srand(7); print "time,user,label"; t = 1700000000; for (i = 0; i < 2000; i++) { t += rand() * 8; if (i == 1200) t += 5000; u = int(40 * rand() * rand()) + int(i / 200) * 20;
    printf "%.2f,%d,%d\n", t - (rand() < 0.2 ? 500 : 0), u, u % 2 } }' >events.csv
cat >events.yaml <<'YAML'
data: {train: events.csv, test: events.csv, shuffle: false, timestamp: time, labels: [{name: label}], features: [{name: user, key: true}]}
embedding: {dim: 4, tables: [{name: user, max_capacity: 400, buckets: 7, eviction: {ttl: 1600, keep: 14}}]}
model: {kind: dnn, deep: [4]}
train: {batch_size: 40, epochs: 1, output: out, log_every: 10, checkpoint: {every_steps: 20}}
YAML
"$RECKON" inspect events.yaml | sed -n '/^dynamic/,/^$/p'
"$RECKON" train -q events.yaml | sed 's/[0-9]\.[0-9]*/N/g'; grep -oE '"step":[0-9]+|"dynamic_(rows|evicted)":[0-9]+' out/metrics.jsonl | paste -d' ' - - - | head -5
# The bytes of the run: on any number of threads, resumed, stale, of a file of another format, and of transformed rows that were kept on the disk.
run() { "$RECKON" train -q -o "$1" "${@:2}" events.yaml >/dev/null; }
last() { sha256sum <"$1"/checkpoints/step-000000050/model-00001.safetensors; }
same() { [ "$(last out)" == "$(last "$1")" ] && echo "same bytes: $1"; }
run threads --threads 7; same threads
run resumed --set train.steps=23; run resumed --resume --threads 1; same resumed
"$RECKON" convert -q --config events.yaml events.csv events.rkb >/dev/null; "$RECKON" convert -q events.rkb back.csv 2>/dev/null; cmp events.csv back.csv && echo same columns
run rkb --set data.train=events.rkb; same rkb
RK_CACHE=$PWD/cache; export RK_CACHE; sleep 0.1; for i in 1 2; do run cached_$i --set "data.cache={path: $PWD/cache}"; same cached_$i; done; RK_CACHE=off; ls cache | wc -l
run stale --set train.staleness=1; run stale_2 --set train.staleness=1 --set train.steps=31; run stale_2 --resume --set train.staleness=1; [ "$(last stale)" == "$(last stale_2)" ] && echo same bytes: stale
# With a day to live no row goes; and every row goes at the pause of 5000 seconds, but for those that are kept.
run day --set 'embedding.tables[0].eviction={ttl: 86400}'; grep -oE '"dynamic_evicted":[0-9]+' day/metrics.jsonl | tail -1
# Timestamps are of training data: a file without them is evaluated and predicted.
cut -d, -f2- events.csv >plain.csv; "$RECKON" eval --data plain.csv out | sed 's/[0-9]\.[0-9]*/N/g'; cmp <("$RECKON" predict out plain.csv) <("$RECKON" predict out events.csv) && echo same predictions
"$RECKON" export out out.export && cmp <("$RECKON" predict out.export plain.csv) <("$RECKON" predict out plain.csv) && echo same predictions
# Converted: with a time to live from now on, without one, and with another.
change() { sed "s/eviction: {[^}]*}/eviction: {$2}/; s/output: out/output: $1/; s/epochs: 1/epochs: 2/" events.yaml >"$1.yaml"; }
change steps 'ttl_steps: 5'; change seconds 'ttl: 700'; "$RECKON" convert out steps.yaml >/dev/null && "$RECKON" train -q --resume steps.yaml >/dev/null && echo went on by batches
"$RECKON" convert out seconds.yaml >/dev/null && "$RECKON" train -q --resume seconds.yaml >/dev/null && echo went on by other seconds
change seconds_again 'ttl: 900'; "$RECKON" convert steps seconds_again.yaml >/dev/null && echo from batches to seconds
sed 's/eviction: {[^}]*}//; s/ timestamp: time,//; s/output: out/output: before/' events.yaml >before.yaml; change since 'ttl: 900'
"$RECKON" train -q before.yaml >/dev/null; "$RECKON" train -q --resume -o before since.yaml; "$RECKON" convert before since.yaml >/dev/null && "$RECKON" train -q --resume since.yaml >/dev/null && grep -oE '"dynamic_evicted":[0-9]+' since/metrics.jsonl | tail -1
# A column that is far ahead has a clock of its own: no row is old at once.
awk -F, 'NR == 1 { print $0 ",later" } NR > 1 { printf "%s,%.2f\n", $0, $1 + (NR > 1001 ? 1e6 : 0) }' events.csv >two.csv
for column in time later; do sed "s/events.csv/two.csv/; s/timestamp: time/timestamp: $column/; s/output: out/output: by_$column/; s/ttl: 1600/ttl: 20000/" events.yaml >by_$column.yaml; done
"$RECKON" train -q --set train.steps=25 by_time.yaml >/dev/null; "$RECKON" convert -q by_time by_later.yaml; "$RECKON" train -q --resume by_later.yaml >/dev/null; grep -oE '"dynamic_evicted":[0-9]+' by_later/metrics.jsonl | tail -1
# What is wrong, and what is likely to be.
"$RECKON" train -q -o shuffled --set data.shuffle=true events.yaml 2>&1 >/dev/null
try() { "$RECKON" train -o try "$@" events.yaml 2>&1; echo $?; }
try --set data.timestamp=when
sed -E '6s/^[0-9.]+/2023-11-14 22:13/' events.csv >date.csv; try --set data.train=date.csv
sed -E '7s/^[0-9.]+//' events.csv >missing.csv; try --set data.train=missing.csv
try --set data.train=missing.csv --set data.on_bad_row=skip | grep -v ' N' | grep -c skipped
sed -E 's/^([0-9]+)[.]([0-9]+)/\1\20/' events.csv >milliseconds.csv; try --overwrite --set data.train=milliseconds.csv
sed '/timestamp: time/s/ timestamp: time,//' events.yaml >none.yaml; "$RECKON" inspect none.yaml
try --set 'embedding.tables[0].eviction={ttl: -1}'
try --set 'embedding.tables[0].eviction={ttl: 0.5}'
