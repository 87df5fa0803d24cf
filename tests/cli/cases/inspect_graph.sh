source "$SOURCE/tests/cli/cases/lib.inc"; make_run
"$RECKON" inspect --graph run.yaml | tee graph.yaml
# the same model by its own graph
sed '/^model:/d' run.yaml >own.yaml; cat graph.yaml >>own.yaml
{ "$RECKON" train --quiet run.yaml && "$RECKON" train --quiet --set train.output=own own.yaml; } >/dev/null
"$RECKON" predict out test >preset.csv && "$RECKON" predict own test >graph.csv && cmp preset.csv graph.csv && echo "the same predictions"
"$RECKON" inspect --dot run.yaml
"$RECKON" inspect --dot --set 'model.layers[0].inputs=[vectors, job, cty]' own.yaml
"$RECKON" inspect --dot --graph run.yaml
