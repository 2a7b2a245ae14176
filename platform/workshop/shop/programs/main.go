// Programs builds what the tests start: the program, with the race detector if -race is given, and the image's.
package main

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	"stampede/platform/workshop/shop"
)

func main() {
	var both errgroup.Group
	both.Go(func() error { return shop.Build(slices.Contains(os.Args, "-race")) })
	both.Go(shop.BuildImage)
	if err := both.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
