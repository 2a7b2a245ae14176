package cli

import (
	"context"
	"fmt"
	stdio "io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"stampede/platform/base/disk"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/outbound"
)

// Report is `stampede report`.
type Report struct {
	Session      int64  `required:"" help:"The session's id."`
	Out          string `type:"path" placeholder:"FILE" help:"Write to this file, which is replaced once the report is there. Default: standard output."`
	Format       string `default:"" enum:"json,html," placeholder:"FORMAT" help:"json or html, a page to print. Default: as the name of --out ends, else json."`
	Lang         string `default:"en" enum:"en,zh" help:"The page's language, en or zh."`
	ServerAccess `embed:""`
}

// format is --format, or what the file's name says.
func (c *Report) format() string {
	switch ext := strings.ToLower(filepath.Ext(c.Out)); {
	case c.Format != "":
		return c.Format
	case ext == ".html" || ext == ".htm":
		return "html"
	case ext == ".json" || c.Out == "":
		return "json"
	default:
		return ""
	}
}

// Validate checks the flags before anything is asked.
func (c *Report) Validate() error {
	switch {
	case c.Session < 1:
		return fmt.Errorf("--session must be an id such as 12, not %d", c.Session)
	case c.format() == "":
		return fmt.Errorf("--out %s ends neither in .html nor in .json: add --format html or --format json", c.Out)
	}
	return nil
}

// reportTimeout is far above what the curves of the longest session take.
const reportTimeout = time.Minute

// Run fetches the report and writes it.
func (c *Report) Run(ctx context.Context, io Streams) error {
	server, token, err := c.Operator(auth.Viewer)
	if err != nil {
		return blindError{err}
	}
	api := outbound.NewAPI(server, token, reportTimeout)
	defer api.Close()
	doc, err := api.Document(ctx, fmt.Sprintf("/api/v1/admin/sessions/%d/report?format=%s", c.Session, c.format()), c.Lang)
	if err != nil {
		return blindError{err}
	}
	if c.Out == "" {
		_, err = io.Out.Write(doc)
		return err
	}
	name := c.Out
	if target, none := filepath.EvalSymlinks(name); none == nil {
		name = target // a link stays one
		if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a file; without --out the report goes to standard output", name)
		}
	}
	if err := disk.Replace(name, 0o644, func(w stdio.Writer) error { _, err := w.Write(doc); return err }); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
