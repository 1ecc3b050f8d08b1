package kigen;

import java.io.File;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * The local file system, setting permissions by a system call where Hadoop forks a `chmod` process for every file.
 *
 * Spark writes every file of a checkpoint under another name and renames it. With the system property `kigen.sync`, its bytes are on the disk
 * before the rename and its name is after it, so that a power cut leaves the old file or the new one, never half of one.
 */
public class NioRawFileSystem extends RawLocalFileSystem {
    /** From the lowest bit of a mode to the highest. */
    private static final PosixFilePermission[] BITS = {
        PosixFilePermission.OTHERS_EXECUTE, PosixFilePermission.OTHERS_WRITE, PosixFilePermission.OTHERS_READ,
        PosixFilePermission.GROUP_EXECUTE, PosixFilePermission.GROUP_WRITE, PosixFilePermission.GROUP_READ,
        PosixFilePermission.OWNER_EXECUTE, PosixFilePermission.OWNER_WRITE, PosixFilePermission.OWNER_READ
    };

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
        Set wanted = EnumSet.noneOf(PosixFilePermission.class);
        for (int bit = 0; bit < BITS.length; bit++) {
            if ((permission.toShort() >> bit & 1) == 1) {
                wanted.add(BITS[bit]);
            }
        }
        Files.setPosixFilePermissions(pathToFile(path).toPath(), wanted);
    }

    @Override
    public boolean rename(Path source, Path target) throws IOException {
        if (!Boolean.getBoolean("kigen.sync")) {
            return super.rename(source, target);
        }
        File file = pathToFile(source);
        if (file.isFile()) {
            sync(file);
        }
        boolean done = super.rename(source, target);
        if (done) {
            sync(pathToFile(target).getParentFile());
        }
        return done;
    }

    @Override
    public boolean mkdirs(Path path) throws IOException {
        File missing = Boolean.getBoolean("kigen.sync") ? pathToFile(path).getAbsoluteFile() : null;
        File highest = null;
        while (missing != null && !missing.exists()) {
            highest = missing;
            missing = missing.getParentFile();
        }
        boolean done = super.mkdirs(path);
        File made = highest == null ? null : pathToFile(path).getAbsoluteFile();
        while (made != null && made.getParentFile() != null) {
            sync(made.getParentFile());
            made = made.equals(highest) ? null : made.getParentFile();
        }
        return done;
    }

    private static void sync(File file) throws IOException {
        FileChannel channel = FileChannel.open(file.toPath(), new OpenOption[] {StandardOpenOption.READ});
        try {
            channel.force(true);
        } finally {
            channel.close();
        }
    }
}
