source "$SOURCE/tests/cli/cases/lib.inc"; make_run
clean() { sed -E 's/0\.[0-9]{5} /0.N /; s/[0-9]+\.[0-9]$/S/'; }
"$RECKON" tune --grid train.optimizer.learning_rate=1e300,0.05 --grid 'model.deep=[4],[8,4]' --set train.optimizer.kind=sgd --output search run.yaml | clean
ls search search/trial-004
"$RECKON" tune --resume --quiet --grid train.optimizer.learning_rate=1e300,0.05 --grid 'model.deep=[4],[8,4]' --set train.optimizer.kind=sgd --output search run.yaml | clean
sed -E 's/,0\.[0-9]{5,},/,N,/; s/,[0-9]+\.[0-9],/,S,/' search/tune.csv
"$RECKON" tune --grid train.optimizer.learning_rat=1 run.yaml; echo $?
"$RECKON" tune --range embedding.dim=1..9 run.yaml; echo $?
"$RECKON" tune --random 2 --range embedding.dim=1..9 run.yaml; echo $?
"$RECKON" tune run.yaml; echo $?
"$RECKON" tune --quiet --random 2 --range embedding.dim=2..9:int --metric logloss run.yaml | wc -l
