source "$SOURCE/tests/cli/cases/lib.inc"; make_run
"$RECKON" convert -q train.csv a.rkb && "$RECKON" convert -q a.rkb b.tfrecord && "$RECKON" convert -q b.tfrecord c.csv.gz && "$RECKON" convert -q c.csv.gz d.tsv
head -3 d.tsv
"$RECKON" convert -q a.rkb e.csv && cmp e.csv train.csv && echo same
