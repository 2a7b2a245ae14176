// Servers runs a command, such as go test, with one Postgres and one Redis for all
// test processes that it starts.
package main

import (
	"os"

	"stampede/platform/workshop/pgtest"
)

func main() { os.Exit(pgtest.Run(os.Args[1:]...)) }
