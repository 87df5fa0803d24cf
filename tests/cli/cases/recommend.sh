# Users like items of their own kind, one of three; u5 knows all of its kind. Scores depend on the processor, so those of items of two kinds say who is first.
awk 'BEGIN { srand(3); print "user,item"; for (u = 0; u < 60; u++) for (i = 0; i < 30; i++)
    if (u % 3 == i % 3 ? rand() < 0.8 || u == 5 : rand() < 0.03) printf "u%d,\"item %d\"\n", u, i }' | grep -v '^u[67],"item [01]"' >train.csv
cat >run.yaml <<'YAML'
data:
  train: train.csv
  features: [{name: user, vocabulary: {}}, {name: item, vocabulary: {}}]
embedding: {dim: 8}
model: {kind: two_tower, retrieval: {user: user, item: item, similarity: cosine, temperature: 0.2, negatives: 16}}
train: {batch_size: 64, epochs: 20, output: run, optimizer: {kind: adam, learning_rate: 0.02}}
YAML
"$RECKON" train -q run.yaml 2>/dev/null
scoreless() { sed 's/,[-0-9.e]*$//'; }
printf 'user\nu7\nnobody\nu6\nu7\n' >users.csv
printf 'item 1\nitem 0\r\n\nitem 99\n' >items.txt
"$RECKON" recommend run --users users.csv --items items.txt -k 10 | scoreless
"$RECKON" recommend run.yaml -u users.csv -i items.txt --with-known -f jsonl | sed 's/,"scores.*//'
"$RECKON" recommend run -u users.csv -i items.txt --without-items <(echo item 0) -k 1 -o best.csv && scoreless <best.csv
"$RECKON" recommend run -k 3 -o all.csv.gz && zcat all.csv.gz | wc -l
# What a user knows is left out; more items than there are is all of them.
"$RECKON" recommend run | grep '^u5,' | wc -l
"$RECKON" recommend run --with-known | grep '^u5,' | wc -l
# Refused.
"$RECKON" recommend run -k 0
"$RECKON" recommend run --users no.csv
printf 'user\n' >empty.csv; "$RECKON" recommend run -u empty.csv
printf 'name\nu7\n' >name.csv; "$RECKON" recommend run -u name.csv
printf 'user\nu700\nu701\n' >strangers.csv; "$RECKON" recommend run -u strangers.csv
printf 'item 1000\n' >none.txt; "$RECKON" recommend run -i none.txt
"$RECKON" recommend run -i users.csv -u run.yaml
"$RECKON" recommend run -k 2 -o no/where.csv
"$RECKON" recommend run -k 2 -o run
# One that is killed while it writes leaves the file as it was, and what it left itself is in nobody's way.
mkfifo fifo && echo before >killed.csv
"$RECKON" recommend run -u fifo -o killed.csv & killed=$!
exec 3>fifo
printf 'user\nu7\n' >&3
timeout 20 bash -c 'until [ -e killed.csv.tmp ]; do sleep 0.05; done'
kill -9 $killed; wait $killed 2>/dev/null
cat killed.csv
"$RECKON" recommend run -u users.csv -i items.txt -o killed.csv 2>/dev/null && wc -l <killed.csv && ls killed.csv*
# The pairs of the training data are read again, unless nothing is asked of them.
mv train.csv moved.csv
"$RECKON" recommend run -u users.csv -k 1
"$RECKON" recommend run -u users.csv -k 1 --with-known -i items.txt | scoreless
