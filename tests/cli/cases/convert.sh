source "$SOURCE/tests/cli/cases/lib.inc"; make_run
"$RECKON" convert -q train.csv a.rkb && "$RECKON" convert -q a.rkb b.tfrecord && "$RECKON" convert -q b.tfrecord c.csv.gz && "$RECKON" convert -q c.csv.gz d.tsv
head -3 d.tsv
"$RECKON" convert -q a.rkb e.csv && cmp e.csv train.csv && echo same
printf 'x,y\n0.1,-0.5044\n3.4028235e+38,1e-45\n16777216,0.123456789\n' >f.csv
"$RECKON" convert -q f.csv f.rkb && "$RECKON" convert -q f.rkb f.tsv && cat f.tsv
# Texts that are no numbers as they stand, whole numbers that f32 does not hold, and what may be numbers.
printf 'padded,floated,mixed,number\n0083886084,16777217.0,16777217,16777216\n0083886105,16777216.0,0.5,-0\n1,3,7,0.1\n' >g.csv
for format in rkb tfrecord; do
    "$RECKON" convert -q g.csv g.$format && "$RECKON" convert -q g.$format h.csv && cat h.csv
done
