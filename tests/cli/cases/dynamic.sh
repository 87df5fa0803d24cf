source "$SOURCE/tests/cli/cases/lib.inc"; make_run
# Keys of text, and numbers of 64 bits; more of them than rows.
awk 'BEGIN { srand(11); print "user,item,label"; big = "1844674407370955";
    for (i = 0; i < 600; i++) { u = int(60 * rand()); printf "u%d,%s%d,%d\n", u, big, int(1000 * rand() * rand()), u % 2 } }' >keys.csv
cat >keys.yaml <<'YAML'
data:
  train: keys.csv
  valid: keys.csv
  test: keys.csv
  labels: [{name: label}]
  features: [{name: user, key: true}, {name: item, key: true}]
embedding:
  dim: 4
  tables:
    - {name: user, max_capacity: 100, missing: oov}
    - {name: item, max_capacity: 90, dtype: bf16, eviction: lfu, admission: {min_count: 2}}
model: {kind: deepfm, deep: [8]}
train: {batch_size: 50, epochs: 2, output: keys, keep_best: false, log_every: 12}
YAML
"$RECKON" inspect keys.yaml | sed -n '/^tables/,/^graph/p'
"$RECKON" train --quiet keys.yaml | sed "s/[0-9]\.[0-9]*/N/g"
grep -oE '"dynamic_[a-z]+":[0-9.]+' keys/metrics.jsonl | tail -4
"$RECKON" eval keys | sed 's/[0-9]\.[0-9]*/N/g'
"$RECKON" predict --limit 2 keys test | sed -E 's/,.*[0-9]/,N/'
# A run that is resumed in its midst has the bytes of one that was not.
"$RECKON" train --quiet --set train.epochs=1 -o parts keys.yaml >/dev/null; "$RECKON" train --quiet --resume -o parts --threads 1 keys.yaml >/dev/null
cmp keys/checkpoints/step-000000024/model-00001.safetensors parts/checkpoints/step-000000024/model-00001.safetensors && echo same bytes
# Rows that expire, and counts in sketches: the bytes of a run are those of one that was resumed.
for counter in count_min bloom; do
    more="embedding.tables[1]={name: item, max_capacity: 90, buckets: 3, eviction: {ttl_steps: 3, keep: 20}, admission: {min_count: 2, counter: $counter}}"
    "$RECKON" inspect --set "$more" keys.yaml | grep '^  item:'
    "$RECKON" train --quiet --set "$more" -o whole keys.yaml >/dev/null
    "$RECKON" train --quiet --set "$more" --set train.epochs=1 -o half keys.yaml >/dev/null; "$RECKON" train --quiet --set "$more" --resume -o half --threads 1 keys.yaml >/dev/null
    cmp whole/checkpoints/step-000000024/model-00001.safetensors half/checkpoints/step-000000024/model-00001.safetensors && echo same bytes; rm -r whole half
done
# The progress line, the report and JSON have the counts.
"$RECKON" train --overwrite -o keys keys.yaml 2>&1 | grep -oE 'rows [0-9]+, admitted.*' | sed 's/  left.*//'; "$RECKON" eval --json keys | grep -oE '"dynamic_[a-z]+":[0-9.]+'
"$RECKON" report --quiet -o page.html keys; grep -oE 'dynamic tables: [a-z ]+' page.html | sort -u
# Cold rows: the bytes of one run, resumed on another number of threads; converted to other buckets; what is refused.
cold() { "$RECKON" "$1" --set 'embedding.tables[0].missing={hash: 10}' --set 'embedding.tables[0].admission={min_count: 9}' --set 'embedding.tables[1].missing={hash: 21}' --set 'embedding.tables[1].buckets=2' "${@:2}" keys.yaml; }
cold inspect | sed -n '/^tables/,/^graph/p'; cold train --quiet -o cold | sed 's/[0-9]\.[0-9]*/N/g'
cold train --quiet --set train.epochs=1 -o part --threads 3 >/dev/null; cold train --quiet --resume -o part --threads 1 >/dev/null; cmp cold/checkpoints/step-000000024/model-00001.safetensors part/checkpoints/step-000000024/model-00001.safetensors && echo same bytes
"$RECKON" export cold cold.export; cmp <("$RECKON" predict cold test) <("$RECKON" predict cold.export test) && echo same predictions; "$RECKON" export --format onnx cold cold.onnx
cold plan --cluster "$SOURCE/examples/plan/hosts_30x12tb.yaml" --sample 600 | sed -n '/^dynamic/,/^$/p'; cold train -o try --set 'embedding.tables[0].missing={hash: 3, row: oov}';
# With room for all, the bits of a static table.
awk 'BEGIN { srand(3); print "id,label"; for (i = 0; i < 300; i++) { d = int(40 * rand()); printf "%d,%d\n", d, d % 3 == 0 } }' >ids.csv
static() { "$RECKON" train --quiet --overwrite --set 'data={train: ids.csv, test: ids.csv, labels: [{name: label}], features: [{name: id, '"$1"'}]}' --set "embedding={dim: 4, dtype: bf16, tables: [{name: id$2}]}" \
    --set 'model={kind: lr}' --set train.epochs=3 -o "$3" keys.yaml >/dev/null && "$RECKON" predict "$3" test >"$3.csv"; }
static 'identity: 40' '' static; static 'key: true' ', max_capacity: 64' dynamic; static 'identity: 40' ', max_capacity: 40' known
cmp static.csv dynamic.csv && cmp static.csv known.csv && echo same predictions
# Rows that are not in memory are on a disk: the same lines of the log and the same predictions, whatever the memory; resumed, too.
disk() { "$RECKON" train --quiet --set 'embedding.tables[0].storage={tier: ssd, memory: '"$1"'}' --set 'embedding.tables[1].storage={tier: ssd, memory: '"$1"', path: elsewhere}' "${@:2}" keys.yaml >/dev/null; }
numbers() { sed -E 's/"(time|samples_per_second)":[^,}]*//g' "$1/metrics.jsonl"; }
for memory in 1 3KB 1GB; do
    disk $memory --overwrite -o disk && cmp <(numbers keys) <(numbers disk) && cmp <("$RECKON" predict keys test) <("$RECKON" predict disk test) && echo "same on a disk, memory $memory"
done
"$RECKON" train --quiet --set train.staleness=1 -o stale keys.yaml >/dev/null; disk 1 --set train.staleness=1 -o disk --overwrite; cmp <(numbers stale) <(numbers disk) && cmp <("$RECKON" predict stale test) <("$RECKON" predict disk test) && echo same on a disk, stale
rm -rf disk; disk 2KB --set train.epochs=1 -o disk; disk 3KB --resume --threads 1 -o disk; cmp <("$RECKON" predict keys test) <("$RECKON" predict disk test) && echo same on a disk, resumed
ls disk disk/checkpoints/*/rows elsewhere 2>&1 | grep -v metrics
# Cold rows stay in memory: a run with the others on a disk, resumed, is that without one, stale, too.
cold_disk() { cold train --quiet "${@:2}" --set "embedding.tables[0].storage={tier: ssd, memory: $1}" --set "embedding.tables[1].storage={tier: ssd, memory: $1}" >/dev/null; }
cold_disk 1 --set train.epochs=1 -o cold_disk; cold_disk 3KB --resume --threads 1 -o cold_disk; cmp <("$RECKON" predict cold test) <("$RECKON" predict cold_disk test) && echo same cold rows beside a disk
cold train --quiet --set train.staleness=1 -o cold_stale >/dev/null; cold_disk 1 --set train.staleness=1 --overwrite -o cold_disk; cmp <(numbers cold_stale) <(numbers cold_disk) && echo same cold rows beside a disk, stale
# Exports, and tables that are rounded for an evaluation, read them where they are.
for run in keys disk; do "$RECKON" export --rows int8 $run $run.out 2>/dev/null; "$RECKON" export --format onnx $run $run.onnx 2>/dev/null; "$RECKON" eval --rows int8 $run >$run.int8; done
cmp keys.out/model.safetensors disk.out/model.safetensors && cmp keys.onnx/model.onnx disk.onnx/model.onnx && cmp keys.int8 disk.int8 && cmp <("$RECKON" predict keys.out test) <("$RECKON" predict disk.out test) && echo same exports from a disk
# A page that is lost in the newest checkpoint alone: the one before it is used, and the run goes on to the same end. Lost in a file that all have, there is none.
lose() { printf '\xff' | dd of="$1" bs=1 seek=4000 conv=notrunc status=none; }
name_no_file() { sed 's/rows-[0-9a-f]*/rows-N/'; }
lose "$(ls disk/checkpoints/step-000000024/rows/user/rows-*.log | tail -1)"; "$RECKON" predict disk test 2>&1 >/dev/null | name_no_file; disk 2KB --resume -o disk; cmp <("$RECKON" predict keys test) <("$RECKON" predict disk test) && echo same on a disk, after a lost page
rm -r disk/checkpoints/step-000000024/rows/user; "$RECKON" predict disk test 2>&1 >/dev/null; disk 2KB --resume -o disk
for step in disk/checkpoints/*; do lose "$(ls "$step"/rows/user/rows-*.log | head -1)"; done; "$RECKON" predict disk test 2>&1 | name_no_file
"$RECKON" inspect --set 'embedding.tables[0].storage={tier: ssd, memory: 3KB}' keys.yaml | sed -n '/^dynamic/,/^graph/p'
"$RECKON" plan --ranks 2 --set 'embedding.tables[0].storage={tier: ssd, memory: 3KB}' keys.yaml | sed -n '/^rows on/,/^ranks/p'
"$RECKON" plan --json --ranks 2 --set 'embedding.tables[0].storage={tier: ssd, memory: 3KB}' keys.yaml | grep -oE '"disk_bytes": *[0-9]+'
# Keys only name rows: negative ones count in a sequence's length, too.
awk 'BEGIN { srand(5); print "up,down,label"; for (i = 0; i < 200; i++) { up = down = ""; n = 1 + int(4 * rand()); for (k = 0; k < n; k++) { x = int(20 * rand());
    up = up (k ? "|" : "") x; down = down (k ? "|" : "") (-x - 1) } printf "%s,%s,%d\n", up, down, n % 2 } }' >lists.csv
named() { "$RECKON" train --quiet --set "data={train: lists.csv, test: lists.csv, labels: [{name: label}], features: [{name: keys, column: $1, separator: '|', key: true}]}" --set 'model={kind: autoint}' \
    --set 'embedding={dim: 4, tables: [{name: keys, max_capacity: 50, initializer: {kind: constant, value: 0.1}}], features: [{name: keys, max_sequence_length: 3}]}' -o "$1" keys.yaml >/dev/null && "$RECKON" predict "$1" test >"$1.csv"; }
named up; named down; cmp up.csv down.csv && echo same predictions
# Candidates are named as they were written; two towers with such tables recommend the same from an export.
"$RECKON" recommend -k 2 --candidates keys.csv --group user --item item keys | awk -F, 'NR > 1 && $4 !~ /^1844674407370955/ { n++ } END { print (NR > 100), n + 0 }'
sed "s/^  features:.*/  features: [{name: user, vocabulary: {}}, {name: item, vocabulary: {}}]/; s/^  labels.*//; s/^model:.*/model: {kind: two_tower, retrieval: {user: user, item: item, negatives: 20}}/; s/oov}/oov, buckets: 4}/" keys.yaml >towers.yaml
"$RECKON" train --quiet -o towers towers.yaml >/dev/null 2>&1; "$RECKON" export towers towers.export
for model in towers towers.export; do "$RECKON" recommend -k 5 --users test "$model" >"$model.csv"; done; cmp towers.csv towers.export.csv && wc -l <towers.csv
# Users and items that are keys: if the training data has all of them, the bits of a run with their ids. Of texts, only items that have rows are recommended, whether all are looked at, an index or an export.
awk 'BEGIN { srand(9); for (u = 0; u < 40; u++) for (i = 0; i < 30; i++) if (rand() < (u % 3 == i % 3 ? 0.6 : 0.05)) print u "," i }' >both.csv
(echo user,item; awk 'NR % 7 != 3' both.csv) >pairs.csv; (echo user,item; awk 'NR % 7 == 3' both.csv) >later.csv
(sed 's/,/,item /; s/^/u/; s/^uuser,item /user,/' pairs.csv; seq 200 | awk '{ print "u" $1 % 40 ",rare " $1 }') >texts.csv
cat >pairs.yaml <<'YAML'
data: {train: pairs.csv, valid: {fraction: 0.1}, test: later.csv, features: [{name: user, key: true}, {name: item, key: true}]}
embedding: {dim: 8, tables: [{name: user, max_capacity: 64}, {name: item, max_capacity: 64, eviction: lfu}], features: [{name: history, table: item}]}
model: {kind: two_tower, retrieval: {user: user, item: item, history: true, max_history: 3, similarity: cosine, temperature: 0.2, negatives: 16, sampling: popularity, in_batch: true}}
train: {batch_size: 64, epochs: 3, output: pairs, optimizer: {kind: adam, learning_rate: 0.02}}
YAML
"$RECKON" train -q pairs.yaml >/dev/null; "$RECKON" train -q --set 'data.features=[{name: user, identity: 40}, {name: item, identity: 30}]' -o numbers pairs.yaml >/dev/null
cmp <(numbers pairs) <(numbers numbers) && cmp <("$RECKON" eval pairs) <("$RECKON" eval numbers) && cmp <("$RECKON" recommend -k 9 pairs) <("$RECKON" recommend -k 9 numbers) && echo same pairs
for of in pairs later; do awk -F, -v OFS=, 'NR > 1 { $1 = 7 * $1 + 99; $2 = 3 * $2 + 50 } 1' $of.csv >$of.other; done # other keys: where rows begin alike, the same run
for to in csv other; do "$RECKON" train -q --set data.train=pairs.$to --set data.test=later.$to --set data.format=csv --set embedding.initializer='{kind: constant, value: 0.1}' -o $to pairs.yaml >/dev/null; done; cmp <(numbers csv) <(numbers other) && echo same by other keys
"$RECKON" train -q --set data.train=texts.csv --set data.test=texts.csv --set model.retrieval.negatives=4 -o texts pairs.yaml >/dev/null; "$RECKON" export texts texts.export; "$RECKON" index -k 5 texts >/dev/null
for model in texts texts.export; do "$RECKON" recommend -k 300 $model 2>/dev/null | cut -d, -f1-3 >$model.best; done; cmp texts.best texts.export.best && awk -F, 'NR == 1 || $2 <= 3' texts.best | cmp - <("$RECKON" recommend -k 3 --index items.faiss texts 2>/dev/null | cut -d, -f1-3) && echo same items
cut -d, -f3 texts.best | sort -u | awk '/^item/ { n++ } END { print n, NR < 140 }'
printf 'item 3\nnone\n' >some.txt; "$RECKON" recommend -k 2 -i some.txt texts | awk -F, 'NR > 1 { print $3 }' | sort -u; printf 'none\n' >none.txt; "$RECKON" recommend -i none.txt texts
printf 'user\nu5\nu777\n' >users.csv; "$RECKON" recommend -k 1 -u users.csv texts | cut -d, -f1-2
printf '18446744073709551615\n9223372036854775807\n' | awk '{ for (u = 0; u < 9; u++) print "u" u "," $1 }' >>texts.csv; "$RECKON" train -q --overwrite --set data.train=texts.csv --set data.test=texts.csv -o texts pairs.yaml >/dev/null; "$RECKON" index texts
# What they do not do, and what the file gets wrong.
"$RECKON" export keys out
"$RECKON" plan --cluster "$SOURCE/examples/plan/hosts_30x12tb.yaml" --sample 600 keys.yaml | sed -n '/^tables/,/^ranks/p'
"$RECKON" plan --measure --ranks 4 --set 'embedding.tables[0].eviction={keep: 90}' keys.yaml >/dev/null && echo measured with fewer rows
"$RECKON" eval --rows int8 keys | sed -E "s/ +[-+0-9][0-9.e+-]*%?/ N/g"
try() { "$RECKON" train -o try "$@" keys.yaml 2>&1; echo $?; }
try --set 'embedding.tables[1]={name: item}'
try --set 'embedding.tables=[{name: item, max_capacity: 5}]'
try --set 'embedding.tables[1]={name: item, eviction: lru}'
try --set 'embedding.tables[1].rows=5'
try --set 'embedding.tables[1].trainable=false'
try --set 'embedding.tables[1].buckets=91'
try --set 'embedding.tables[1].max_capacity=100000000000000'
try --set embedding.l2_full=0.1
try --set 'embedding.tables[1].eviction.keep=91'
try --set 'embedding.tables[1].eviction={ttl: 60}'; try --set 'embedding.tables[1].eviction={ttls: 60}'
try --set 'embedding.tables[1].admission={min_count: 300, counter: count_min}'
"$RECKON" inspect --set 'embedding.tables[1]={name: item, max_capacity: 200000000, buckets: 1, admission: {min_count: 2, counter: bloom}}' keys.yaml 2>&1 >/dev/null
try --set 'embedding.tables[1].admission={counter: bloom}'
try --set 'embedding.tables[1]={name: item, storage: ssd}'; try --set 'embedding.tables[1].storage=ssd'; try --set 'embedding.tables[1].storage={memory: 5GB}'; try --set 'embedding.tables[1].storage={tier: ssd, memory: much}'
try --set 'embedding.tables[1].storage={tier: ssd, memory: 1GB, max_bytes: 1MB}'
try --set 'embedding.tables[1].eviction.policy=lur'
