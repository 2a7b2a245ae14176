package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
)

// imageBuild finds the command with which the Dockerfile builds the program.
var imageBuild = regexp.MustCompile(`(?m)^RUN (.*\bgo build\b.*) -o /out/stampede \.$`)

// binaryDir is the folder that binary made, "" if no test needed one.
var binaryDir string

// removeBinary deletes it after the last test.
func removeBinary() error {
	if binaryDir == "" {
		return nil
	}
	return os.RemoveAll(binaryDir)
}

// binary builds the program once, for all tests that need a separate process:
// with the image's build command, so that the tests are valid for the image,
// and a machine with a cold cache compiles everything only once.
var binary = sync.OnceValues(func() (string, error) {
	dockerfile, err := os.ReadFile("Dockerfile")
	if err != nil {
		return "", err
	}
	command := imageBuild.FindSubmatch(dockerfile)
	if command == nil {
		return "", errors.New("the Dockerfile does not build /out/stampede")
	}
	dir, err := os.MkdirTemp("", "stampede-binary-")
	if err != nil {
		return "", err
	}
	binaryDir = dir
	name := filepath.Join(dir, "stampede")
	// It runs in a shell, as in the image; only the output path differs.
	cmd := exec.Command("sh", "-c", string(command[1])+` -o "$OUT" .`)
	cmd.Env = append(os.Environ(), "OUT="+name, "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return name, nil
})
