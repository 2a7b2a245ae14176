// Programs builds what the tests start: the program, with the race detector if -race is given, the image's, and the last
// release's.
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
	// After them, whose compiled dependencies it shares. Where it cannot be built, its one test says so.
	_ = shop.BuildReleased()
}
