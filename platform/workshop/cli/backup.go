package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"filippo.io/age"

	"stampede/platform/edge/auth"
	"stampede/platform/store/backup"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/embedded"
)

// Backup is `stampede backup`.
type Backup struct {
	To     string `required:"" env:"STAMPEDE_BACKUP_TO" placeholder:"PLACE" help:"Folder for the backup, a file named by its time, or a bucket as s3://KEY:SECRET@HOST/BUCKET/PREFIX." secret:""`
	For    string `env:"STAMPEDE_BACKUP_FOR" placeholder:"age1…" help:"Public key that the backup is encrypted for, so that only its private key opens it."`
	NewKey string `type:"path" placeholder:"FILE" help:"Make a new key: write the private key to this file, and encrypt for it."`

	DatabaseURL string `env:"STAMPEDE_DATABASE_URL" help:"Postgres of the server. Default: the one of --data." secret:"" found:""`
	SigningKey  string `env:"STAMPEDE_SIGNING_KEY" help:"The server's signing key, which is kept too. Default: the one in --data." secret:"" found:""`
	Data        string `default:"${data}" env:"STAMPEDE_DATA" type:"path" help:"Data folder of a running stampede run."`
}

// Validate checks the flags.
func (c *Backup) Validate() error {
	if (c.For == "") == (c.NewKey == "") {
		return errors.New("either --for age1… names the public key to encrypt for, or --new-key FILE makes one")
	}
	if c.For != "" {
		if _, err := age.ParseRecipients(strings.NewReader(c.For)); err != nil {
			return errors.New("--for must be a public key of age, which begins with age1")
		}
	}
	return nil
}

// recipients are the key to encrypt for, a new one if that was asked for, and what to say of that once the backup is made.
func (c *Backup) recipients() (to []age.Recipient, said string, err error) {
	if c.For != "" {
		to, err = age.ParseRecipients(strings.NewReader(c.For))
		return to, "", err
	}
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, "", fmt.Errorf("make a key: %w", err)
	}
	public := key.Recipient().String()
	if err := newFile(c.NewKey, fmt.Sprintf("# public key: %s\n%s\n", public, key)); err != nil {
		return nil, "", fmt.Errorf("keep the new key: %w", err)
	}
	said = fmt.Sprintf("New key in %s. Keep it away from this machine: without it no backup opens.\nNext time: --for %s\n", c.NewKey, public)
	return []age.Recipient{key.Recipient()}, said, nil
}

// newFile writes a file that did not exist, readable only by its owner.
func newFile(name, content string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// Run writes the backup.
func (c *Backup) Run(ctx context.Context, io Streams, version Version) error {
	place, err := backup.At(c.To)
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	databaseURL, stack, err := findDatabase(ctx, c.DatabaseURL, c.Data)
	if err != nil {
		return err
	}
	if stack.DatabaseURL != "" && databaseURL != stack.DatabaseURL && c.SigningKey == "" {
		return fmt.Errorf("--database-url is not the shop in %s, whose signing key no other shop's backup should contain: give --signing-key, too", c.Data)
	}
	key, err := stack.key(c.SigningKey, c.Data)
	if err != nil {
		return err
	}
	if err := auth.CheckKey(key); err != nil {
		return err
	}
	dump, err := PostgresTool("pg_dump")
	if err != nil {
		return err
	}
	to, said, err := c.recipients()
	if err != nil {
		return err
	}
	began := time.Now()
	name, size, err := backup.Create(ctx, place, dump, databaseURL, backup.About{Version: string(version), Made: began.UTC().Truncate(time.Second), SigningKey: key}, to...)
	if err != nil && c.NewKey != "" && size == 0 { // recipients made the file: it replaces none
		return errors.Join(fmt.Errorf("%w; nothing needs the new key, so %s was deleted", err, c.NewKey), os.Remove(c.NewKey))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(io.Out, "%sBackup of %.1f MB in %s/%s, made in %.1f s.\n", said, float64(size)/1e6, place, name, time.Since(began).Seconds())
	return err
}

// PostgresTool returns the path of a client program of Postgres: beside the server that `run` would use, else on PATH.
func PostgresTool(name string) (string, error) {
	found, _ := embedded.Find() // a machine of `serve` has neither Postgres nor Redis
	if path := found.Tool(name); path != "" {
		return path, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is missing: install the client programs of PostgreSQL (Debian: postgresql-client), at least as new as the server", name)
	}
	return path, nil
}

// Restore is `stampede restore`.
type Restore struct {
	File string `arg:"" env:"STAMPEDE_RESTORE_FROM" help:"The backup: a file, or s3://KEY:SECRET@HOST/BUCKET/PREFIX/NAME." secret:""`
	Key  string `required:"" type:"existingfile" placeholder:"FILE" help:"The private key that --new-key wrote."`

	Data        string `type:"path" placeholder:"FOLDER" help:"New data folder, for stampede run."`
	DatabaseURL string `env:"STAMPEDE_DATABASE_URL" help:"Instead of --data: an empty database, for stampede serve." secret:""`
	KeyTo       string `type:"path" placeholder:"FILE" help:"With --database-url: write the shop's signing key to this new file."`
	RunAs       string `env:"STAMPEDE_RUN_AS" help:"As of stampede run."`
	Trial       bool   `help:"Disable the webhooks of the restored shop, which else announces how its sales end."`
}

// Validate checks the flags.
func (c *Restore) Validate() error {
	switch {
	case c.Data != "" && c.KeyTo != "":
		return errors.New("--key-to belongs to --database-url: a data folder keeps the signing key itself")
	case c.Data == "" && (c.DatabaseURL == "" || c.KeyTo == ""):
		return errors.New("either --data names a new folder for `stampede run`, or --database-url and --key-to an empty database and a file for `stampede serve`")
	case c.Data != "" && embedded.IsData(c.Data):
		return fmt.Errorf("%s contains a shop already: restore into a new folder", c.Data)
	case c.Data == "":
		return checkPostgres("--database-url", c.DatabaseURL)
	}
	return nil
}

// Run restores. Files are opened first: with --data root becomes another account.
func (c *Restore) Run(ctx context.Context, io Streams, last *lastResort) (err error) {
	keys, err := os.Open(c.Key)
	if err != nil {
		return fmt.Errorf("open the private key: %w", err)
	}
	with, err := age.ParseIdentities(keys)
	if err = errors.Join(err, keys.Close()); err != nil {
		return fmt.Errorf("%s contains no private key of age: %w", c.Key, err)
	}
	from, err := backup.Open(ctx, c.File, with...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	tool, err := PostgresTool("pg_restore")
	if err != nil {
		return err
	}
	next := "Start the server on an empty Redis and NATS, with the signing key in " + c.KeyTo
	if c.Data != "" {
		next = fmt.Sprintf("Next: stampede run --data %s, then stampede verify --data %s", word(c.Data), word(c.Data))
		err = c.intoFolder(ctx, from, tool, last)
	} else {
		err = c.intoDatabase(ctx, from, tool)
	}
	if err != nil {
		return err
	}
	if c.Trial {
		next += ". Its webhooks are disabled"
	}
	_, err = fmt.Fprintf(io.Out, "Restored the shop as it was at %s. %s.\n", from.Made.Format("2006-01-02 15:04:05 UTC"), next)
	return err
}

func (c *Restore) intoDatabase(ctx context.Context, from *backup.Backup, tool string) error {
	if err := reach(ctx, database(c.DatabaseURL)); err != nil {
		return err
	}
	if err := newFile(c.KeyTo, from.SigningKey); err != nil {
		return fmt.Errorf("keep the signing key: %w", err)
	}
	if err := from.Restore(ctx, tool, c.DatabaseURL); err != nil {
		return errors.Join(err, os.Remove(c.KeyTo))
	}
	return c.quieten(ctx, c.DatabaseURL)
}

// quieten disables the webhooks of a trial, even after Ctrl-C: the shop is restored already.
func (c *Restore) quieten(ctx context.Context, databaseURL string) error {
	if !c.Trial {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	conn, err := pg.Connect(ctx, databaseURL)
	if err == nil {
		_, err = conn.Exec(ctx, "UPDATE notify.webhooks SET enabled = false")
		err = errors.Join(err, conn.Close(ctx))
	}
	if err != nil {
		return fmt.Errorf("the shop is restored, but its webhooks are not disabled: %w", err)
	}
	return nil
}

// intoFolder makes a data folder of `run`. What is left of one that could not be finished is a shop without a sale.
func (c *Restore) intoFolder(ctx context.Context, from *backup.Backup, tool string, last *lastResort) (err error) {
	parts, err := embedded.Start(ctx, embedded.Config{DataDir: c.Data, RunAs: c.RunAs, OwnAccount: true, Emergency: last.arm})
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, parts.Stop(context.WithoutCancel(ctx))); err != nil {
			err = fmt.Errorf("%w; delete %s before you try again", err, c.Data)
		}
	}()
	if err := from.Restore(ctx, tool, parts.DatabaseURL); err != nil {
		return err
	}
	if err := c.quieten(ctx, parts.DatabaseURL); err != nil {
		return err
	}
	_, err = keepStack(parts.DataDir, Noted{DatabaseURL: parts.DatabaseURL, RedisURL: parts.RedisURL, SigningKey: from.SigningKey})
	return err
}
