source "$SOURCE/tests/cli/cases/lib.inc"
awk 'BEGIN { srand(3); print "user,item,label"; for (i = 0; i < 400; i++) { u = int(30 * rand()); printf "%d,%d,%d\n", u, int(50 * rand() * rand()), u % 3 == 0 } }' >ids.csv
run_file() { # NAME, user's kind, item's kind, of tables user and item
    cat >"$1.yaml" <<YAML
data:
  train: ids.csv
  test: ids.csv
  labels: [{name: label}]
  features: [{name: user, $2}, {name: item, $3}]
embedding: {dim: 4, optimizer: {kind: adam}, tables: [{name: user$4}, {name: item, dtype: bf16$5}]}
model: {kind: deepfm, deep: [8]}
train: {batch_size: 50, epochs: 1, output: $1, keep_best: false}
YAML
}
quiet() { "$RECKON" "$@" >/dev/null; }
same() { cmp "$1/checkpoints/$3/model-00001.safetensors" "$2/checkpoints/$3/model-00001.safetensors" && echo "$1 and $2: same bytes"; }
run_file static 'identity: 30' 'identity: 60' '' ''
run_file dynamic 'key: true' 'key: true' ', max_capacity: 100' ', max_capacity: 90, buckets: 3, missing: oov, admission: {min_count: 2}'
run_file back 'identity: 30' 'identity: 60' '' ''
run_file large 'key: true' 'key: true' ', max_capacity: 1000, buckets: 7' ', max_capacity: 80, buckets: 1, missing: oov, admission: {min_count: 3}'
run_file sketch 'key: true' 'key: true' ', max_capacity: 100' ', max_capacity: 90, buckets: 3, missing: oov, admission: {min_count: 2, counter: count_min}'
run_file again 'key: true' 'key: true' ', max_capacity: 100' ', max_capacity: 90, buckets: 3, missing: oov, admission: {min_count: 2}'
# To keys and back: the bytes of the rows, slots and counters; and predictions.
"$RECKON" train --quiet static.yaml >/dev/null; "$RECKON" convert static dynamic.yaml; "$RECKON" convert -q dynamic back.yaml
same static back step-000000008
for run in static dynamic back; do "$RECKON" predict "$run" test >"$run.csv"; done; cmp static.csv dynamic.csv && cmp static.csv back.csv && echo same predictions
# Rows on a disk of what were ids, and back.
ssd=', storage: {tier: ssd, memory: 1KB}'
run_file disk 'key: true' 'key: true' ", max_capacity: 100$ssd" ", max_capacity: 90, buckets: 3, missing: oov$ssd"; run_file ids 'identity: 30' 'identity: 60' '' ''
quiet convert -q static disk.yaml; quiet convert -q disk ids.yaml; same static ids step-000000008; find disk/rows -type f
# With room for all, the run goes on as the static one does.
for run in static dynamic; do quiet train --quiet --resume --set train.epochs=2 "$run.yaml"; done
run_file later 'identity: 30' 'identity: 60' '' ''; quiet convert -q dynamic later.yaml; same static later step-000000016
# So it does with stale updates, whose next step sees former values of rows, which are converted, too.
for run in static dynamic disk back later ids; do sed "s/output: $run/output: stale.$run, staleness: 1/" $run.yaml >stale.$run.yaml; done; sed -i 's/missing: oov/&, admission: {min_count: 2}/' stale.disk.yaml
quiet train --quiet stale.static.yaml; for run in dynamic disk; do quiet convert -q stale.static stale.$run.yaml; done; quiet convert -q stale.dynamic stale.back.yaml; same stale.static stale.back step-000000008
for table in user item; do grep -aqF "\"before/0/0:1,0:4/$table/rows\"" stale.dynamic/checkpoints/*8/model-00001.safetensors || echo "no former values of table $table"; done
for run in static dynamic disk; do quiet train --quiet --resume --set train.epochs=2 stale.$run.yaml; done
quiet convert -q stale.dynamic stale.later.yaml; same stale.static stale.later step-000000016; quiet convert -q stale.disk stale.ids.yaml; same stale.static stale.ids step-000000016
# Another capacity and other buckets, and back: candidates too, once there are some.
awk 'BEGIN { srand(9); print "user,item,label"; for (i = 0; i < 400; i++) printf "%d,%d,%d\n", int(60 * rand()) - 20, int(90 * rand()), i % 2 }' >ids.csv
quiet train --quiet --resume --allow-changed-data --set train.epochs=3 dynamic.yaml
"$RECKON" convert -q dynamic large.yaml; "$RECKON" convert -q large again.yaml; same dynamic again step-000000024
for run in dynamic large; do "$RECKON" predict "$run" test >"$run.csv"; done; cmp dynamic.csv large.csv && echo same predictions
# The same, with the larger ones on a disk.
for run in large again; do sed "s/output: $run/output: $run.disk/" $run.yaml >$run.disk.yaml; done; sed -i "s/max_capacity: [0-9]*/&$ssd/" large.disk.yaml
quiet convert -q dynamic large.disk.yaml; quiet convert -q large.disk again.disk.yaml; same dynamic again.disk step-000000024
# With counts in sketches, which begin anew; and so do candidates on the way back.
"$RECKON" convert -q dynamic sketch.yaml; "$RECKON" train --quiet --resume --set train.epochs=4 sketch.yaml >/dev/null; sed 's/output: sketch/output: exact/; s/count_min/exact/' sketch.yaml >exact.yaml; "$RECKON" convert -q sketch exact.yaml; ls -d sketch/checkpoints/*32 exact/checkpoints/*
# Sketches stay where both runs have the same.
for run in roomy alike; do sed "s/output: sketch/output: $run/; s/max_capacity: 100/max_capacity: $([ $run = alike ] && echo 100 || echo 300)/" sketch.yaml >"$run.yaml"; done
"$RECKON" convert -q sketch roomy.yaml; "$RECKON" convert -q roomy alike.yaml; same sketch alike step-000000032
# Cold rows stay where there are as many, whatever the buckets.
for run in cold other cold_again; do buckets=3; [ $run = other ] && buckets=2; run_file $run 'key: true' 'key: true' ', max_capacity: 100' ", max_capacity: 90, buckets: $buckets, missing: {hash: 6}, admission: {min_count: 4}"; done
"$RECKON" train --quiet cold.yaml >/dev/null; "$RECKON" convert -q cold other.yaml; "$RECKON" convert -q other cold_again.yaml; same cold cold_again step-000000008
# What is refused.
"$RECKON" train --resume --set 'embedding.tables[0].max_capacity=50' dynamic.yaml; "$RECKON" convert dynamic large.yaml
run_file narrow 'identity: 30' 'identity: 60' '' ''; "$RECKON" convert dynamic narrow.yaml
"$RECKON" convert --to csv dynamic narrow.yaml
sed 's/dim: 4/dim: 5/; s/output: [a-z]*/output: other/' dynamic.yaml >other.yaml; "$RECKON" convert dynamic other.yaml
ls -d narrow/checkpoints other 2>/dev/null || true
