# Those with job1 click, the others do not: a margin that no processor's rounding bridges.
awk 'BEGIN { srand(7); print "age,job,city,label"; for (i = 0; i < 400; i++) { j = int(3 * rand()); printf "%d,job%d,city%d,%d\n", 20 + 40 * rand(), j, 5 * rand(), j == 1 } }' >train.csv
cat >run.yaml <<'YAML'
data:
  train: train.csv
  labels: [{name: label}]
  features: [{name: job, vocabulary: {}}, {name: city, hash: 16}, {name: age, dense: true, normalize: true}]
embedding: {dim: 4}
model: {kind: wide_deep, deep: [8]}
train: {batch_size: 16, epochs: 10, output: out, optimizer: {kind: adam, learning_rate: 0.02}}
YAML
"$RECKON" train -q run.yaml >/dev/null 2>&1
printf 'age,job,city\n50,job0,a\n50,job1,a\n55,job1,b\n55,job1,b\n31,job2,b\n' >candidates.csv
scoreless() { sed 's/,[-0-9.e]*$//'; }
"$RECKON" recommend out --candidates candidates.csv --group city --item job -k 2 | scoreless
"$RECKON" recommend out -c candidates.csv -g city -f jsonl -k 1 -o - | sed 's/,"scores.*//'
"$RECKON" recommend out -c candidates.csv -g age --item job -k 1 -o best.csv && scoreless <best.csv
# Refused.
"$RECKON" recommend out
"$RECKON" recommend out --vectors item -o items.npy
"$RECKON" recommend out --vectors item
"$RECKON" recommend out -c candidates.csv
"$RECKON" recommend out -c candidates.csv -g town
"$RECKON" recommend out -c candidates.csv -g city --task click
"$RECKON" recommend out -c candidates.csv -g city --users candidates.csv
"$RECKON" recommend out -c candidates.csv --vectors user -o u.npy
"$RECKON" recommend out -g city
printf 'age,job,city\n50,job1,a\nold,job1,a\n' >bad.csv
"$RECKON" recommend out -c bad.csv -g city
