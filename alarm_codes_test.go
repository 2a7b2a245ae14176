package main

import (
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/require"
)

// TestEveryAlarmIsProvoked: an alarm that no test has seen raised may never fire. A test
// names an alarm by its code or by its definition.
func TestEveryAlarmIsProvoked(t *testing.T) {
	t.Parallel()
	defined := regexp.MustCompile(`(\w+) += (?:alarm\.)?Define\("([^"]+)"`)
	type definition struct{ folder, name string }
	definitions, tests := map[alarm.Code]definition{}, map[string]string{} // tests by folder, and all of them
	for _, top := range append([]string{"platform"}, modules...) {
		require.NoError(t, filepath.WalkDir(top, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") {
				return err
			}
			raw, err := os.ReadFile(name)
			source, dir := string(raw), filepath.Dir(name)
			switch {
			case strings.HasSuffix(name, "_test.go"):
				tests[dir] += source
				tests[""] += source
			case strings.Contains(source, `Define("`):
				for _, found := range defined.FindAllStringSubmatch(source, -1) {
					definitions[alarm.Code(found[2])] = definition{dir, found[1]}
				}
			}
			return err
		}))
	}
	for _, d := range alarm.Definitions() {
		by, code, said := definitions[d.Code], string(d.Code), tests[""]
		named := strings.Contains(said, `"`+code+`"`) || strings.Contains(said, "code="+code)
		if !ast.IsExported(by.name) {
			said = tests[by.folder]
		}
		if by.name == "" || !named && !strings.Contains(said, by.name) {
			t.Errorf("no test provokes %s, which %s defines", d.Code, by.folder)
		}
	}
}
