// Package backup keeps a shop in one encrypted file: its signing key, then its database as pg_dump writes it. Redis and
// NATS are not in it, because a server that finds them empty loads its items from the database.
//
// The file is a tar in the format of age (https://age-encryption.org/v1), whose last block says that it is whole. The
// database is cut into entries, because a tar wants to know the size of each and a dump is as long as it is. Nothing is
// written to a disk unencrypted.
package backup

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/jackc/pgx/v5/pgconn"

	"stampede/platform/store/pg"
)

// About is the beginning of a backup.
type About struct {
	Version    string    `json:"version"` // of the program that made it
	Made       time.Time `json:"made"`
	SigningKey string    `json:"signing_key"`
}

const (
	aboutName    = "about.json"
	databaseName = "database"
	// piece is the size of an entry of the database: what is kept in memory.
	piece = 4 << 20
	// Suffix ends a backup's name, and nameLayout is the rest of it, in UTC.
	Suffix     = ".stampede.age"
	nameLayout = "2006-01-02T150405Z"
)

// Create writes a backup to a place and returns its name and its size in bytes. pgDump is the path of a pg_dump at least as
// new as the server.
func Create(ctx context.Context, to Place, pgDump, databaseURL string, about About, readers ...age.Recipient) (name string, size int64, err error) {
	name = about.Made.UTC().Format(nameLayout) + Suffix
	size, err = to.Put(ctx, name, func(w io.Writer) error { return write(ctx, w, pgDump, databaseURL, about, readers) })
	if err != nil {
		return "", size, fmt.Errorf("write the backup: %w", err)
	}
	return name, size, nil
}

// Longest is how long a backup may take: 20 GB over a line of 5 Mbit/s. A service that takes the upload and then nothing more
// looks like a slow line.
const Longest = 12 * time.Hour

// Prune deletes the oldest backups at a place but so many, and returns how many it deleted. It deletes what is left of those
// that ended with their process, too; other files stay, and so does what a clock that was ahead has dated later than now: it
// would count as the newest for as long.
func Prune(ctx context.Context, at Place, keep int, now time.Time) (deleted int, err error) {
	if err := at.Clear(ctx, now.Add(-2*Longest)); err != nil {
		return 0, fmt.Errorf("delete unfinished backups: %w", err)
	}
	names, err := at.Names(ctx)
	if err != nil {
		return 0, fmt.Errorf("list the backups: %w", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return began(name).After(now) })
	for _, name := range names[min(keep, len(names)):] {
		if err := at.Delete(ctx, name); err != nil {
			return deleted, fmt.Errorf("delete the backup %s: %w", name, err)
		}
		deleted++
	}
	return deleted, nil
}

func write(ctx context.Context, w io.Writer, pgDump, databaseURL string, about About, to []age.Recipient) error {
	sealed, err := age.Encrypt(w, to...)
	if err != nil {
		return err
	}
	entries := tar.NewWriter(sealed)
	first, err := json.Marshal(about)
	if err != nil {
		return err
	}
	if err := entry(entries, aboutName, first, about.Made); err != nil {
		return err
	}
	out := &pieces{to: entries, at: about.Made, buffer: make([]byte, 0, piece)}
	// The format of pg_dump that is compressed, and that pg_restore reads from a pipe.
	dump, said := command(ctx, pgDump, databaseURL, "--format=custom", "--no-owner", "--no-privileges")
	dump.Stdout = out
	err = dump.Run()
	if out.failed != nil {
		return out.failed // that pg_dump ended with it says nothing
	}
	if err != nil {
		return explain("pg_dump", err, said)
	}
	if err := out.flush(); err != nil {
		return err
	}
	return errors.Join(entries.Close(), sealed.Close())
}

func entry(w *tar.Writer, name string, content []byte, at time.Time) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o600, ModTime: at}); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

// pieces writes a stream as entries of a tar.
type pieces struct {
	to     *tar.Writer
	at     time.Time
	buffer []byte
	failed error
}

// Write gathers a piece before it writes it.
func (p *pieces) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		m := min(len(b), piece-len(p.buffer))
		p.buffer = append(p.buffer, b[:m]...)
		n, b = n+m, b[m:]
		if len(p.buffer) == piece {
			if err := p.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (p *pieces) flush() error {
	if len(p.buffer) == 0 {
		return nil
	}
	p.failed = entry(p.to, databaseName, p.buffer, p.at)
	p.buffer = p.buffer[:0]
	return p.failed
}

// Backup is an open backup. Close it.
type Backup struct {
	About

	file    io.Closer
	entries *tar.Reader
	whole   io.Reader // the tar, to its end
}

// Open opens a backup, a file or an object s3://KEY:SECRET@HOST/BUCKET/NAME, and reads its beginning.
func Open(ctx context.Context, path string, with ...age.Identity) (_ *Backup, err error) {
	dir, name, query := cut(path)
	at, err := At(dir + query)
	if err != nil {
		return nil, err
	}
	file, err := at.Open(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("open the backup: %w", err)
	}
	path = name
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	opened, err := age.Decrypt(file, with...)
	if none := (*age.NoIdentityMatchError)(nil); errors.As(err, &none) {
		return nil, fmt.Errorf("%s was made for another key", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no backup: %w", path, err)
	}
	b := &Backup{file: file, entries: tar.NewReader(opened), whole: opened}
	if _, err := b.entries.Next(); err != nil {
		return nil, fmt.Errorf("%s is no backup: %w", path, err)
	}
	if err := json.NewDecoder(b.entries).Decode(&b.About); err != nil {
		return nil, fmt.Errorf("read the beginning of %s: %w", path, err)
	}
	return b, nil
}

// cut is the place of a file, its name, and what follows the name in a bucket's address.
func cut(file string) (dir, name, query string) {
	if strings.HasPrefix(file, "s3:") {
		if i := strings.LastIndexByte(file, '?'); i >= 0 {
			file, query = file[:i], file[i:]
		}
	}
	dir, name = filepath.Split(file)
	return cmp.Or(dir, "."), name, query
}

// Close closes the file.
func (b *Backup) Close() error { return b.file.Close() }

// Restore puts the database back, whole or not at all. It must be empty, and pgRestore at least as new as the pg_dump that
// wrote it. A backup can be restored once after it was opened.
func (b *Backup) Restore(ctx context.Context, pgRestore, databaseURL string) error {
	conn, err := pg.Connect(ctx, databaseURL)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	found := conn.PgConn().ExecParams(ctx, `SELECT 1 FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid
		WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') LIMIT 1`, nil, nil, nil, nil).Read()
	if err := errors.Join(found.Err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("look into the database: %w", err)
	}
	if len(found.Rows) > 0 {
		return errors.New("the database is not empty: create a new one and restore into that")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	restore, said := command(ctx, pgRestore, databaseURL, "--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
	in, err := restore.StdinPipe()
	if err != nil {
		return fmt.Errorf("start pg_restore: %w", err)
	}
	if err := restore.Start(); err != nil {
		return fmt.Errorf("start pg_restore: %w", err)
	}
	damaged := b.copyDatabase(in)
	if damaged != nil {
		cancel() // before it can commit
	}
	err = errors.Join(in.Close(), restore.Wait())
	switch {
	case damaged != nil:
		return fmt.Errorf("the backup is damaged, nothing was restored: %w", damaged)
	case err != nil:
		return explain("pg_restore", err, said)
	}
	return nil
}

// copyDatabase writes the dump to w, but its last piece only once the file has proved to be whole. It ends early without
// an error if w takes no more: pg_restore says why.
func (b *Backup) copyDatabase(w io.Writer) error {
	var last []byte
	for {
		h, err := b.entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if h.Name != databaseName || h.Size > piece {
			return fmt.Errorf("unknown content %q of %d bytes", h.Name, h.Size)
		}
		if _, err := w.Write(last); err != nil {
			return nil //nolint:nilerr // see above
		}
		if last, err = io.ReadAll(b.entries); err != nil {
			return err
		}
	}
	if len(last) == 0 {
		return io.ErrUnexpectedEOF
	}
	if _, err := io.Copy(io.Discard, b.whole); err != nil {
		return err
	}
	_, _ = w.Write(last) // see above
	return nil
}

// command is a program of Postgres on a database. The password goes by the environment: other accounts of the machine can
// read a command line.
func command(ctx context.Context, program, databaseURL string, args ...string) (cmd *exec.Cmd, said *bytes.Buffer) {
	config, err := pgconn.ParseConfig(databaseURL)
	if err != nil {
		config = new(pgconn.Config) // the program says what is wrong
	}
	args = append(args, "--dbname="+forLibpq(databaseURL, config.RuntimeParams))
	cmd = exec.CommandContext(ctx, program, args...) //nolint:gosec // the caller's own program and setting
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if config.Password != "" {
		cmd.Env = append(cmd.Env, "PGPASSWORD="+config.Password)
	}
	said = &bytes.Buffer{}
	cmd.Stderr = said
	cmd.WaitDelay = 5 * time.Second
	return cmd, said
}

// explain adds the last line that a program wrote about its failure.
func explain(program string, err error, said *bytes.Buffer) error {
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	return fmt.Errorf("%s: %w: %s", program, err, lines[len(lines)-1])
}

// forLibpq is a database's URL as libpq takes it, without the password of its user. settings are what pgx sends to the
// server: libpq refuses them as a URL's parameters, but for a few, and a dump needs none of the others.
func forLibpq(databaseURL string, settings map[string]string) string {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return databaseURL
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	q := u.Query()
	maps.DeleteFunc(q, func(name string, _ []string) bool {
		_, setting := settings[name]
		return name == "password" || setting && !slices.Contains([]string{"application_name", "client_encoding", "options"}, name)
	})
	u.RawQuery = q.Encode()
	return u.String()
}
