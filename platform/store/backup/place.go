package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"stampede/platform/base/disk"
)

// Place keeps backups.
type Place interface {
	// Put makes a file of what write writes. It has its name once it is whole and safe; a name is used once. It returns the
	// file's size in bytes.
	Put(ctx context.Context, name string, write func(io.Writer) error) (size int64, err error)
	// Names are the backups there, the newest first.
	Names(ctx context.Context) ([]string, error)
	// Delete deletes one of Names.
	Delete(ctx context.Context, name string) error
	// Clear deletes what processes that died left of backups that they began before a moment.
	Clear(ctx context.Context, before time.Time) error
	// Open reads one of them.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// String is the place without its secrets.
	String() string
}

// At is the place with a name: a folder, or a bucket as s3://KEY:SECRET@HOST/BUCKET/PREFIX of any service that speaks S3,
// such as Aliyun OSS, Tencent COS or MinIO. ?region= is the bucket's region where the host does not say it.
func At(place string) (Place, error) {
	if !strings.HasPrefix(place, "s3:") {
		if strings.Contains(place, "://") { // a folder with a secret in its name, which is shown
			return nil, errBucket
		}
		return folder(place), nil
	}
	u, err := url.Parse(place)
	if err != nil || u.Host == "" {
		return nil, errBucket
	}
	secret, given := u.User.Password()
	name, prefix, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if name == "" || u.User.Username() == "" || !given || secret == "" {
		return nil, errBucket
	}
	client, err := minio.New(u.Host, &minio.Options{
		Creds: credentials.NewStaticV4(u.User.Username(), secret, ""), Region: u.Query().Get("region"), Secure: !loopback(u.Hostname()),
		MaxRetries: 3, // its transport waits a minute for an answer, and as long as an upload makes progress
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBucket, err)
	}
	return &bucket{client, name, prefix}, nil
}

// loopback reports whether a host is this machine, to which requests need no encryption.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

var errBucket = errors.New("a bucket must be like s3://KEY:SECRET@oss-cn-hangzhou.aliyuncs.com/BUCKET/PREFIX, with % codes for special characters in the secret")

// isBackup reports whether a file's name is one that Create makes.
func isBackup(name string) bool { return !began(name).IsZero() }

// began is when a backup was begun, as its name says; zero for other files.
func began(name string) time.Time {
	at, ok := strings.CutSuffix(name, Suffix)
	t, err := time.Parse(nameLayout, at)
	if !ok || err != nil {
		return time.Time{}
	}
	return t
}

// newestFirst keeps the names of backups.
func newestFirst(names []string) []string {
	names = slices.DeleteFunc(names, func(name string) bool { return !isBackup(name) })
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(b, a) })
	return names
}

// folder is a place on a disk.
type folder string

func (f folder) String() string { return string(f) }

func (f folder) Put(_ context.Context, name string, write func(io.Writer) error) (int64, error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return 0, fmt.Errorf("make the folder of the backups: %w", err)
	}
	file := filepath.Join(string(f), name)
	if _, err := os.Lstat(file); err == nil {
		return 0, fmt.Errorf("%s exists already", file)
	}
	if err := disk.Replace(file, 0o600, write); err != nil {
		return 0, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f folder) Names(context.Context) ([]string, error) {
	entries, err := os.ReadDir(string(f))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return newestFirst(names), nil
}

func (f folder) Open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(string(f), name))
}

func (f folder) Delete(_ context.Context, name string) error {
	return os.Remove(filepath.Join(string(f), name))
}

func (f folder) Clear(_ context.Context, before time.Time) error {
	entries, err := os.ReadDir(string(f))
	for _, e := range entries {
		hidden, is := strings.CutPrefix(e.Name(), ".") // see disk.Replace
		name, _, more := strings.Cut(hidden, Suffix+"-")
		if is && more && isBackup(name+Suffix) && began(name+Suffix).Before(before) {
			err = errors.Join(err, os.Remove(filepath.Join(string(f), e.Name())))
		}
	}
	return err
}

// bucket is a place in an object storage.
type bucket struct {
	client       *minio.Client
	name, prefix string
}

// partBytes is what an upload keeps in memory. Ten thousand of them, the most that S3 takes, are 160 GB.
const partBytes = 16 << 20

func (b *bucket) String() string {
	return "s3://" + path.Join(b.client.EndpointURL().Host, b.name, b.prefix)
}

func (b *bucket) Put(ctx context.Context, name string, write func(io.Writer) error) (size int64, err error) {
	key := path.Join(b.prefix, name)
	if _, exists, err := b.find(ctx, key); err != nil {
		return 0, fmt.Errorf("look into %s: %w", b, err)
	} else if exists {
		return 0, fmt.Errorf("%s/%s exists already", b, name)
	}
	from, to := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(to)
		_ = to.CloseWithError(err) // never fails; with an error the upload is not completed
		written <- err
	}()
	up, err := b.client.PutObject(ctx, b.name, key, from, -1, minio.PutObjectOptions{ContentType: "application/octet-stream", PartSize: partBytes})
	_ = from.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // never fails; ends a write that nothing reads
	if failed := <-written; failed != nil && err == nil {
		err = failed
	}
	if err != nil {
		return 0, fmt.Errorf("upload to %s: %w", b, err)
	}
	kept, _, err := b.find(ctx, key)
	if err == nil && kept != up.Size {
		err = fmt.Errorf("it has %d of %d bytes", kept, up.Size)
	}
	if err != nil {
		return up.Size, fmt.Errorf("%s took the upload and does not have it: %w", b, err)
	}
	return up.Size, nil
}

// find returns an object's size, if it exists. It lists, because to ask for the object itself a key
// needs the right to read it.
func (b *bucket) find(ctx context.Context, key string) (size int64, exists bool, err error) {
	for o := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: key}) {
		if o.Err != nil || o.Key == key {
			return o.Size, o.Err == nil, o.Err
		}
	}
	return 0, false, nil
}

// below begins the keys of the bucket's backups.
func (b *bucket) below() string {
	if b.prefix == "" {
		return ""
	}
	return b.prefix + "/"
}

func (b *bucket) Names(ctx context.Context) (names []string, err error) {
	below := b.below()
	for o := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: below}) {
		if o.Err != nil {
			return nil, fmt.Errorf("list %s: %w", b, o.Err)
		}
		names = append(names, strings.TrimPrefix(o.Key, below))
	}
	return newestFirst(names), nil
}

func (b *bucket) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	o, err := b.client.GetObject(ctx, b.name, path.Join(b.prefix, name), minio.GetObjectOptions{})
	if err == nil {
		if _, err = o.Stat(); err != nil {
			err = errors.Join(err, o.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s/%s: %w", b, name, err)
	}
	return o, nil
}

func (b *bucket) Delete(ctx context.Context, name string) error {
	return b.client.RemoveObject(ctx, b.name, path.Join(b.prefix, name), minio.RemoveObjectOptions{})
}

// Clear aborts uploads, whose parts are stored, and paid for, under no name.
func (b *bucket) Clear(ctx context.Context, before time.Time) error {
	var old []minio.ObjectMultipartInfo
	for upload := range b.client.ListIncompleteUploads(ctx, b.name, b.below(), false) {
		if minio.ToErrorResponse(upload.Err).Code == minio.AccessDenied {
			return nil // backups do not need that right; the bucket's own rules may do this
		}
		if upload.Err != nil {
			return fmt.Errorf("list unfinished uploads of %s: %w", b, upload.Err)
		}
		if name := strings.TrimPrefix(upload.Key, b.below()); isBackup(name) && began(name).Before(before) {
			old = append(old, upload)
		}
	}
	var err error
	for i := range old {
		err = errors.Join(err, minio.Core{Client: b.client}.AbortMultipartUpload(ctx, b.name, old[i].Key, old[i].UploadID))
	}
	return err
}
