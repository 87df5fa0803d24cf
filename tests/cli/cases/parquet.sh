# Parquet files that pyarrow wrote: read, refused where they are damaged, and no files to write.
source "$SOURCE/tests/cli/cases/lib.inc"
golden=$SOURCE/tests/golden/parquet
"$RECKON" convert -q "$golden/none.parquet" a.csv && head -4 a.csv
mkdir -p days/part=1 days/part=2 && cp "$golden/none.parquet" days/part=1/a.parquet && cp "$golden/none.parquet" days/part=2/b.parquet
"$RECKON" convert -q days two.csv && wc -l <two.csv
cat >run.yaml <<'YAML'
data:
  train: days
  labels: [{name: flag, optional: true}]
  features:
    - {name: word, vocabulary: {}}
    - {name: ids, identity: 4}
    - {name: part, identity: 3}
    - {name: single, dense: true, normalize: true}
embedding: {dim: 4}
model: {kind: dnn, deep: [8]}
train: {batch_size: 16, epochs: 2, output: out}
YAML
"$RECKON" train -q run.yaml && "$RECKON" predict out days/part=2/b.parquet | wc -l
"$RECKON" train -q --overwrite --set data.train=days/part=3 run.yaml
"$RECKON" train -q -o times --set data.timestamp=day run.yaml; "$RECKON" train -q -o times --set data.timestamp=part run.yaml >/dev/null && echo numbers are seconds
"$RECKON" convert a.csv b.parquet
head -c 7000 "$golden/none.parquet" >cut.parquet
"$RECKON" convert cut.parquet b.csv
sed -i 's/name: word,/name: wort,/' run.yaml
"$RECKON" train -q --overwrite run.yaml
