source "$SOURCE/tests/cli/cases/lib.inc"; make_run
"$RECKON" convert -q train.csv a.rkb && "$RECKON" convert -q a.rkb b.tfrecord && "$RECKON" convert -q b.tfrecord c.csv.gz && "$RECKON" convert -q c.csv.gz d.tsv
head -3 d.tsv
"$RECKON" convert -q a.rkb e.csv && cmp e.csv train.csv && echo same
printf 'x,y\n0.1,-0.5044\n3.4028235e+38,1e-45\n16777216,0.123456789\n' >f.csv
"$RECKON" convert -q f.csv f.rkb && "$RECKON" convert -q f.rkb f.tsv && cat f.tsv
