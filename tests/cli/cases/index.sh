# Users like items of their own kind, one of three.
awk 'BEGIN { srand(3); print "user,item"; for (u = 0; u < 60; u++) for (i = 0; i < 30; i++)
    if (u % 3 == i % 3 ? rand() < 0.6 : rand() < 0.03) printf "u%d,i%d\n", u, i }' >train.csv
cat >run.yaml <<'YAML'
data:
  train: train.csv
  features: [{name: user, vocabulary: {}}, {name: item, vocabulary: {}}]
embedding: {dim: 8}
model: {kind: two_tower, retrieval: {user: user, item: item, similarity: cosine, temperature: 0.2, negatives: 16}}
train: {batch_size: 64, epochs: 20, output: run, optimizer: {kind: adam, learning_rate: 0.02}}
YAML
"$RECKON" train -q run.yaml 2>/dev/null
speedless() { sed 's/, [0-9]* queries/, N queries/'; }
"$RECKON" index run -k 5 | speedless
"$RECKON" index run.yaml --kind ivf --lists 6 --recall 1 -k 5 --output ivf.faiss | speedless
"$RECKON" recommend run -k 3 | cut -d, -f1-3 >all.csv
"$RECKON" recommend run -k 3 --index items.faiss | cut -d, -f1-3 | cmp - all.csv
# Refused.
"$RECKON" index run --recall 1.5
"$RECKON" index run -k 0
"$RECKON" index run --kind ivf --codes f32
"$RECKON" index run --kind ivf --lists 31
"$RECKON" index run --users no.csv
"$RECKON" index run --output no/where.faiss
"$RECKON" recommend run --index all.csv
head -c 500 items.faiss >half.faiss; "$RECKON" recommend run --index half.faiss
