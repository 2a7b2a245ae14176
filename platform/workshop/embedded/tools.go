package embedded

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// sharedTools is where .ci/setup puts the servers that it unpacks for root if
// no other account can enter the checkout, for example below /root: root's
// servers run as another account.
const sharedTools = "/var/cache/stampede/bin"

// toolsDirs are the folders with the commands that .ci/setup creates for
// unpacked packages. They are beside the program that it builds, in the
// .tools/bin of the module that contains the working directory (tests run in
// their package's folder), or in sharedTools.
func toolsDirs() []string {
	var dirs []string
	if self, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(self))
	}
	if wd, err := os.Getwd(); err == nil {
		dirs = append(dirs, filepath.Join(moduleAround(wd), ".tools", "bin"))
	}
	dirs = append(dirs, sharedTools)
	return slices.DeleteFunc(dirs, func(dir string) bool { return !trusted(dir) })
}

// moduleAround returns the nearest folder at or above dir with a go.mod, or "".
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

// trusted refuses folders that an account other than this user or root can
// write to: programs in them are executed.
func trusted(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o002 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}
