"$RECKON" serve no-such-run
"$RECKON" serve
printf "models: [{name: a/b, path: x}]\nlisten: here\n" >serve.yaml; "$RECKON" serve serve.yaml
printf "models: [{name: a, path: x}]\nlimit: {}\n" >serve.yaml; "$RECKON" serve serve.yaml
"$RECKON" serve --name a/b no-such-run
"$RECKON" serve --name a serve.yaml
"$RECKON" health 127.0.0.1:1
"$RECKON" health somewhere
"$RECKON" health --timeout 0 127.0.0.1:1
printf "listen: 127.0.0.1:1\nmodels: [{name: a, path: x}]\n" >serve.yaml; "$RECKON" health serve.yaml
printf "listen: 127.0.0.1:1\nmodels: [{name: a, path: x}]\ntls: {certificate: c, key: k}\n" >serve.yaml; "$RECKON" health serve.yaml
