package shop

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// shell is the module that every document loads. It is served together with all that it
// imports as one file, because each file more is a round trip more on a phone. Modules
// that are loaded later import what they share with it from it: it exports all of them.
const shell = "main.js"

// The element is one file with all that it imports but the solver, which starts itself as
// a worker, and the verifier's widget, which few shops have.
const (
	elementStyle = "buy.css" // the part of style.css that it needs
	solver       = "pow.js"
	widget       = "verifier.js"
)

// bundle returns the modules and style sheets as they are served: minified, and the
// shell as one file. The files' other contents stay as they are.
func bundle(sources map[string]string) (map[string]string, error) {
	sources = maps.Clone(sources)
	if style := sources["style.css"]; sources[element] != "" {
		sources[elementStyle] = ofPages.ReplaceAllString(style, "")
	}
	served := maps.Clone(sources)
	_, meta, err := build(sources, shellOf, shell)
	if err != nil {
		return nil, err
	}
	within, exporting := map[string]bool{}, maps.Clone(sources)
	for _, name := range slices.Sorted(maps.Keys(meta.Inputs)) {
		name = strings.TrimPrefix(name, namespace+":")
		within[name] = true
		delete(served, name)
		if name != shell {
			exporting[shell] += fmt.Sprintf("\nexport * from \"./%s\";", name)
		}
	}
	written, _, err := build(exporting, shellOf, shell)
	if err != nil {
		return nil, err
	}
	var rest []string
	for name := range served {
		if ext := path.Ext(name); (ext == ".js" || ext == ".css") && name != element {
			rest = append(rest, name)
		}
	}
	maps.Copy(served, written)
	slices.Sort(rest)
	written, _, err = build(sources, func(_ api.ResolveKind, name string) string {
		if within[name] {
			return shell
		}
		return name
	}, rest...)
	if err != nil {
		return nil, err
	}
	maps.Copy(served, written)
	if sources[element] == "" {
		return served, nil
	}
	exporting = maps.Clone(sources)
	exporting[elementStyle] = served[elementStyle]
	written, _, err = build(exporting, func(_ api.ResolveKind, name string) string {
		if name == solver || name == widget {
			return name
		}
		return ""
	}, element)
	maps.Copy(served, written)
	return served, err
}

// ofPages matches what the element leaves out of the style sheet.
var ofPages = regexp.MustCompile(`(?s)/\* Of pages only\. \*/.*?(/\* Of the element too\. \*/|$)`)

// shellOf takes in what the shell imports statically.
func shellOf(kind api.ResolveKind, name string) string {
	if kind == api.ResolveJSImportStatement {
		return ""
	}
	return name
}

// namespace tells the bundler's modules, which are in memory, from files.
const namespace = "static"

// inputs are the modules of which a build's files consist.
type inputs struct {
	Inputs map[string]struct{} `json:"inputs"`
}

// build makes a file of each of the named ones. elsewhere returns the file from which a
// browser loads an import; "" takes it in.
func build(sources map[string]string, elsewhere func(kind api.ResolveKind, name string) string, names ...string) (map[string]string, inputs, error) {
	resolve := func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		name := path.Base(a.Path)
		if _, exists := sources[name]; !exists {
			return api.OnResolveResult{}, fmt.Errorf("%s is imported and does not exist", a.Path)
		}
		if a.Kind != api.ResolveEntryPoint {
			if file := elsewhere(a.Kind, name); file != "" {
				return api.OnResolveResult{Path: "./" + file, External: true}, nil
			}
		}
		return api.OnResolveResult{Path: name, Namespace: namespace}, nil
	}
	load := func(a api.OnLoadArgs) (api.OnLoadResult, error) { //nolint:unparam // the bundler asks for an error
		body, loader := sources[a.Path], api.LoaderJS
		switch {
		case path.Ext(a.Path) == ".css" && slices.Contains(names, element):
			loader = api.LoaderText
		case path.Ext(a.Path) == ".css":
			loader = api.LoaderCSS
		}
		return api.OnLoadResult{Contents: &body, Loader: loader}, nil
	}
	result := api.Build(api.BuildOptions{
		EntryPoints: names, Bundle: true, Format: api.FormatESModule, Outdir: "/", Metafile: true, Charset: api.CharsetUTF8,
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true, LegalComments: api.LegalCommentsNone,
		Plugins: []api.Plugin{{Name: namespace, Setup: func(b api.PluginBuild) {
			b.OnResolve(api.OnResolveOptions{Filter: ".*"}, resolve)
			b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: namespace}, load)
		}}},
	})
	var wrong []error
	for _, m := range slices.Concat(result.Errors, result.Warnings) {
		wrong = append(wrong, fmt.Errorf("shop: build %s: %s", strings.Join(names, ", "), m.Text))
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, inputs{}, err
	}
	var meta inputs
	if err := json.Unmarshal([]byte(result.Metafile), &meta); err != nil {
		return nil, inputs{}, fmt.Errorf("shop: read what %s consists of: %w", shell, err)
	}
	written := map[string]string{}
	for _, f := range result.OutputFiles {
		written[path.Base(f.Path)] = string(f.Contents)
	}
	return written, meta, nil
}
