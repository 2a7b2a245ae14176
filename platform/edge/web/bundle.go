package web

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// shell is the module that every document loads. It is served together with all that it
// imports as one file, because each file more is a round trip more on a phone.
const shell = "main.js"

var (
	importNames  = regexp.MustCompile(`(?m)^import \{([^}]*)\} from "\./([\w-]+\.js)";$`)
	importAll    = regexp.MustCompile(`(?m)^import \* as (\w+) from "\./([\w-]+\.js)";$`)
	importEffect = regexp.MustCompile(`(?m)^import "\./([\w-]+\.js)";$`)
	exported     = regexp.MustCompile(`(?m)^export ((?:const|class|function|async function) (\w+))`)
	remark       = regexp.MustCompile(`(?m)^\s*//.*\n`)
	otherForm    = regexp.MustCompile(`(?m)^(?:import|export) .*$`)
)

// bundle returns the modules as they are served. The shell has its parts as functions
// that are called in order; each is exported under its own name ("$api" of api.js), so
// that modules that are loaded later share its state. Comments stay in the sources.
func bundle(sources map[string]string) (map[string]string, error) {
	order, err := inOrder(sources, shell, nil, nil)
	if err != nil {
		return nil, err
	}
	served := map[string]string{}
	var parts, names strings.Builder
	for _, name := range order {
		body, exports := exported.ReplaceAllString(sources[name], "$1"), []string{}
		for _, m := range exported.FindAllStringSubmatch(sources[name], -1) {
			exports = append(exports, m[2])
		}
		body = importNames.ReplaceAllStringFunc(body, func(line string) string {
			m := importNames.FindStringSubmatch(line)
			return "const {" + m[1] + "} = " + part(m[2]) + ";"
		})
		body = importAll.ReplaceAllStringFunc(body, func(line string) string {
			m := importAll.FindStringSubmatch(line)
			return "const " + m[1] + " = " + part(m[2]) + ";"
		})
		body = importEffect.ReplaceAllString(body, "")
		fmt.Fprintf(&parts, "const %s = (() => {\n%s\nreturn { %s };\n})();\n", part(name), body, strings.Join(exports, ", "))
		fmt.Fprintf(&names, "%s, ", part(name))
	}
	served[shell] = parts.String() + "export { " + names.String() + "};\n"
	for name, body := range sources {
		if slices.Contains(order, name) {
			continue
		}
		var needed []string
		body = importNames.ReplaceAllStringFunc(body, func(line string) string {
			m := importNames.FindStringSubmatch(line)
			if !slices.Contains(order, m[2]) {
				return line
			}
			needed = append(needed, part(m[2]))
			return "const {" + m[1] + "} = " + part(m[2]) + ";"
		})
		body = importEffect.ReplaceAllStringFunc(body, func(line string) string {
			if slices.Contains(order, importEffect.FindStringSubmatch(line)[1]) {
				return ""
			}
			return line
		})
		if len(needed) > 0 {
			body = fmt.Sprintf("import { %s } from \"./%s\";\n", strings.Join(needed, ", "), shell) + body
		}
		served[name] = body
	}
	for name, body := range served {
		served[name] = remark.ReplaceAllString(body, "")
	}
	return served, nil
}

// part is the name of a module within the shell.
func part(name string) string { return "$" + strings.TrimSuffix(name, ".js") }

// inOrder appends a module to done, behind all that it imports.
func inOrder(sources map[string]string, name string, above, done []string) ([]string, error) {
	if slices.Contains(done, name) {
		return done, nil
	}
	body, ok := sources[name]
	if !ok {
		return nil, fmt.Errorf("web: %s is imported and does not exist", name)
	}
	if slices.Contains(above, name) {
		return nil, fmt.Errorf("web: modules import each other in a circle: %s", strings.Join(append(above, name), " → "))
	}
	rest := importNames.ReplaceAllString(importAll.ReplaceAllString(importEffect.ReplaceAllString(exported.ReplaceAllString(body, ""), ""), ""), "")
	if line := otherForm.FindString(rest); line != "" {
		return nil, fmt.Errorf("web: %s has an import or export in a form that cannot be served in one file: %s", name, line)
	}
	for _, find := range []*regexp.Regexp{importNames, importAll, importEffect} {
		for _, m := range find.FindAllStringSubmatch(body, -1) {
			var err error
			if done, err = inOrder(sources, m[len(m)-1], append(slices.Clone(above), name), done); err != nil {
				return nil, err
			}
		}
	}
	return append(done, name), nil
}
