// Package quickstart serves the documentation's first page, /docs/start: how a shop's own backend plans a sale, sells a unit
// and receives the news of it, in curl, Go and TypeScript. The page cuts its code out of three programs, which it also serves
// whole and which tests compile and run (platform/workshop/shop/clients).
package quickstart

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"stampede/platform/edge/encoded"
	"stampede/platform/edge/httpx"
)

// Files are the programs, and the commands that make their clients.
//
//go:embed _examples
var Files embed.FS

//go:embed page.html
var pageText string

// programs are the files of the page's languages, by the id of the language.
var programs = map[string]string{"curl": "sale.sh", "go": "sale.go", "ts": "sale.ts"}

// Cut returns the part of a file between the comments [part] and [/part]. It panics if there is none.
func Cut(file, part string) string {
	raw, err := Files.ReadFile("_examples/" + file)
	_, after, begins := strings.Cut(string(raw), "["+part+"]\n")
	code, _, ends := strings.Cut(after, "[/"+part+"]")
	if err != nil || !begins || !ends {
		panic("quickstart: " + file + " has no part " + part)
	}
	return code[:strings.LastIndexByte(code, '\n')+1] // without the beginning of the second comment
}

// comment is one in Go, TypeScript or a shell, after the code was escaped.
var comment = regexp.MustCompile(`(?m)(?:^|[ \t])(?://|#) .*$`)

// code is a <pre> of a language, "" for code of all of them.
func code(language, text string) template.HTML {
	text = comment.ReplaceAllString(template.HTMLEscapeString(strings.TrimSpace(text)), "<i>$0</i>")
	return template.HTML(`<pre tabindex="0" class="` + language + `"><code>` + text + "</code></pre>\n") //nolint:gosec // escaped above
}

// Pages adds /docs/start, in the language of ?language= or of the browser, and its programs. baseURL is the address that
// clients have to use.
func Pages(rt *httpx.Router, baseURL string) {
	var pages [2]func() *encoded.File // rendered for the first reader: few processes have one
	for _, language := range []httpx.Language{httpx.English, httpx.Chinese} {
		tag, t := "en", func(english, _ template.HTML) template.HTML { return english }
		if language == httpx.Chinese {
			tag, t = "zh", func(_, chinese template.HTML) template.HTML { return chinese }
		}
		pages[language] = sync.OnceValue(func() *encoded.File {
			var page bytes.Buffer
			template.Must(template.New("").Funcs(template.FuncMap{
				"t": t, "code": code, "cut": Cut, "tag": func() string { return tag },
				"parts": func(part string) (all template.HTML) {
					for _, language := range []string{"curl", "go", "ts"} {
						all += code(language, Cut(programs[language], part))
					}
					return all
				},
			}).Parse(pageText)).Execute(&page, baseURL) //nolint:errcheck // of constants, into memory
			return encoded.New("", page.String(), encoded.Quickly)
		})
	}
	rt.Handle(httpx.Static, http.MethodGet, "/docs/start", func(w http.ResponseWriter, r *http.Request) {
		language := httpx.LanguageFrom(r.Context())
		if asked := r.URL.Query().Get("language"); asked != "" {
			language = httpx.LanguageOf(asked)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Vary", "Accept-Language")
		pages[language]().Serve(w, r, "no-cache", http.StatusOK)
	})
	for _, name := range programs {
		raw, _ := Files.ReadFile("_examples/" + name) // embedded
		file := encoded.New("", string(raw), encoded.Quickly)
		rt.Handle(httpx.Static, http.MethodGet, "/docs/start/"+name, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			file.Serve(w, r, "no-cache", http.StatusOK)
		})
	}
}
