# How the page makes the clients.
# [go]
curl -O "$SHOP/docs/start/sale.go"
go mod init quickstart
go get -tool github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2
go get github.com/oapi-codegen/runtime@v1.9.0 github.com/standard-webhooks/standard-webhooks/libraries@v0.0.1
mkdir -p stampede
go tool oapi-codegen -generate types,client -package stampede -o stampede/api.go "$SHOP/openapi.json"
go build -o sale .
# [/go]
# [ts]
curl -O "$SHOP/docs/start/sale.ts"
echo '{"type": "module"}' >package.json
npm install openapi-fetch@0.17.0 standardwebhooks@1.1.1
npm install --save-dev openapi-typescript@7.13.0 typescript@5.9.3 @types/node@20.19.43
# The flag lets a request leave out what has a default.
npx openapi-typescript --default-non-nullable=false "$SHOP/openapi.json" -o stampede.d.ts
npx tsc --strict --noUncheckedIndexedAccess --target es2022 --module nodenext --types node sale.ts
# [/ts]
