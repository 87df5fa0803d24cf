"$RECKON" serve no-such-run
"$RECKON" serve
printf "models: [{name: a/b, path: x}]\nlisten: here\n" >serve.yaml; "$RECKON" serve serve.yaml
printf "models: [{name: a, path: x}]\nlimit: {}\n" >serve.yaml; "$RECKON" serve serve.yaml
