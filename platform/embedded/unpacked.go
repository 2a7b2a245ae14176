package embedded

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Distribution packages that were unpacked without being installed (`dpkg-deb -x`) make a tree that looks like "/". Its
// programs run if the loader is told where their libraries are; Postgres finds its own share folder relative to its
// program.

// mirrorDir holds copies of unpacked trees, made by root for accounts that cannot enter the original (a checkout below
// /root). It is a cache: it may be deleted at any time while nothing runs from it.
const mirrorDir = "/var/cache/stampede"

// unpackedDirs lists the program folders of the unpacked trees: those below $STAMPEDE_TOOLS, ./.tools and the .tools of
// the module that the working directory belongs to (tests run in their package's folder). A tree is the folder itself
// or one of its children, so that one folder per package or per release works as well.
func unpackedDirs() []string {
	var roots []string
	if dir := os.Getenv(ToolsEnv); dir != "" {
		roots = append(roots, dir)
	}
	if wd, err := os.Getwd(); err == nil {
		roots = append(roots, filepath.Join(wd, ".tools"))
		if module := moduleAround(wd); module != "" && module != wd {
			roots = append(roots, filepath.Join(module, ".tools"))
		}
	}
	var dirs []string
	for _, root := range roots {
		abs, err := filepath.Abs(root)
		if err != nil || !trusted(abs) {
			continue
		}
		for _, tree := range []string{abs, filepath.Join(abs, "*")} {
			for _, bin := range []string{"usr/lib/postgresql/*/bin", "usr/bin", "bin"} {
				dirs = append(dirs, newestFirst(filepath.Join(tree, bin))...)
			}
		}
	}
	return dirs
}

// moduleAround is the nearest folder at or above dir with a go.mod, or "".
func moduleAround(dir string) string {
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// trusted refuses folders that somebody other than this user or root may have filled: what lies in them is run.
func trusted(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o002 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}

// treeOf is the root of the unpacked tree that path belongs to, or "" for a program installed in the system's own
// folders (or in a prefix that needs no help, such as Homebrew's).
func treeOf(path string) string {
	for _, mark := range []string{"/usr/lib/postgresql/", "/usr/bin/"} {
		if i := strings.Index(path, mark); i > 0 {
			return path[:i]
		}
	}
	return ""
}

// ChildEnv is the whole environment of a child: nothing of ours leaks in (PGDATA, PGOPTIONS, MALLOC_CONF), messages are
// in English so that they can be recognised, and an unpacked program finds its libraries.
func ChildEnv(program string) []string {
	env := []string{"PATH=" + cmp.Or(os.Getenv("PATH"), "/usr/bin:/bin"), "LC_ALL=C", "TZ=UTC"}
	tree := treeOf(program)
	if tree == "" {
		return env
	}
	var libs []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu*", "lib/*-linux-gnu*", "usr/lib", "lib"} {
		found, err := filepath.Glob(filepath.Join(tree, pattern))
		if err == nil {
			libs = append(libs, found...)
		}
	}
	return append(env, "LD_LIBRARY_PATH="+strings.Join(libs, ":"))
}

// mirrored returns a path to the same program that acc can reach: path itself, or one in a copy of its unpacked tree below
// cache.
// ok is false if acc cannot reach it and it belongs to no tree.
func mirrored(path string, acc account, cache string) (reachable string, ok bool, err error) {
	if acc.blockedAt(filepath.Dir(path)) == "" {
		return path, true, nil
	}
	tree := treeOf(path)
	if tree == "" || !acc.switched {
		return "", false, nil
	}
	dir := filepath.Join(cache, "tools-"+fingerprint(tree))
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := copyTree(tree, dir); err != nil {
			return "", false, fmt.Errorf("mirror %s: %w", tree, err)
		}
	}
	rel, err := filepath.Rel(tree, path)
	if err != nil {
		return "", false, fmt.Errorf("mirror %s: %w", tree, err)
	}
	reachable = filepath.Join(dir, rel)
	return reachable, acc.blockedAt(filepath.Dir(reachable)) == "" && executable(reachable), nil
}

// fingerprint changes when a tree is unpacked again with other packages: then it gets a copy of its own, and servers that
// run from the older copy keep it.
func fingerprint(tree string) string {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, tree) // a hash takes every byte
	for _, pattern := range []string{"usr/lib/postgresql/*/bin/*", "usr/bin/*", "usr/lib/*-linux-gnu*/*", "lib/*-linux-gnu*/*"} {
		found, err := filepath.Glob(filepath.Join(tree, pattern))
		if err != nil {
			continue // the patterns are constants; only a malformed one gives an error
		}
		for _, path := range found {
			if info, err := os.Lstat(path); err == nil {
				_, _ = fmt.Fprintln(sum, path, info.Size(), info.ModTime().UnixNano())
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// copyTree copies src to dst, readable for everybody. dst appears only when it is complete, so a copy that was
// interrupted is never used.
func copyTree(src, dst string) error {
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil { //nolint:gosec // programs, for another account to run
		return err
	}
	unfinished, err := os.MkdirTemp(filepath.Dir(dst), ".copy-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(unfinished) }()     // gone already when the rename succeeded
	if err := os.Chmod(unfinished, 0o755); err != nil { //nolint:gosec // as above
		return err
	}
	err = filepath.WalkDir(src, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, path)
		if err != nil || rel == "." {
			return err
		}
		return copyEntry(path, filepath.Join(unfinished, rel), rel, entry)
	})
	if err != nil {
		return err
	}
	if err := os.Rename(unfinished, dst); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return err // another process that made the same copy first is no error
	}
	return nil
}

// copyEntry copies one entry of a tree. What no server needs is left out: it is more than the programs themselves.
func copyEntry(src, dst, rel string, entry fs.DirEntry) error {
	switch {
	case entry.IsDir():
		switch rel {
		case "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/include":
			return fs.SkipDir
		}
		return os.Mkdir(dst, 0o755) //nolint:gosec // programs, for another account to run
	case entry.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(src)
		if err != nil {
			return err
		}
		return os.Symlink(target, dst)
	case entry.Type().IsRegular() && !strings.HasPrefix(entry.Name(), "libLLVM"): // 110 MB for a JIT that is off
		return copyFile(src, dst)
	}
	return nil
}

// copyFile copies a program with its permissions, readable for the account that
// is to run it.
func copyFile(src, dst string) error {
	info, err := os.Stat(src)
	if err != nil {
		return err
	}
	// While the copy is open for writing no child may be forked: it would hold the handle for a moment, and a program that
	// somebody has open for writing cannot be run.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // read only: nothing can be lost
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm()|0o444)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
