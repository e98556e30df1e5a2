package projectlock

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

const (
	accessDelete          = 0x00010000
	errorSharingViolation = syscall.Errno(32)
	fileDispositionInfo   = 4
)

var setFileInformation = syscall.NewLazyDLL("kernel32.dll").NewProc("SetFileInformationByHandle")

// openAlone opens the file in a mode that it shares with no other handle, which ends with the process.
func openAlone(path string, create bool) (*os.File, error) {
	mode := uint32(syscall.OPEN_EXISTING)
	if create {
		mode = syscall.CREATE_NEW
	}
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE|accessDelete, 0, nil, mode,
		syscall.FILE_ATTRIBUTE_NORMAL|syscall.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(h), path), nil
}

// removeAlone has the system remove the file when it is closed.
func removeAlone(f *os.File, path string) error {
	remove := byte(1)
	ok, _, err := setFileInformation.Call(f.Fd(), fileDispositionInfo, uintptr(unsafe.Pointer(&remove)), 1)
	if ok == 0 {
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// busy is an error of opening or reading in which a file that another process has open shows.
func busy(err error) error {
	if errors.Is(err, errorSharingViolation) {
		return errBusy
	}
	return err
}

// denied reports whether another attempt would fail in the same way. A file that is being removed denies access for a
// moment, so a right that is missing cannot be told from that.
func denied(err error) bool { return errors.Is(err, errors.ErrUnsupported) }
