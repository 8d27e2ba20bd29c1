//! What is known of each package manager, one row each. A new one is a new row.
//!
//! Rows of one family exclude each other in a root, the first that applies wins; rows of different
//! families each get a step. Flags that change nothing of what a person would type go into `set`.

use super::cause::{Cause, Says};
use super::ecosystem::{Alone, Ecosystem, Family, PLAIN, When};
use super::look::Look;

/// `npm` and what reads its settings. Registries that don't answer are given up after some 15 s instead of
/// 73 s (measured): omg itself tries once more.
const NPM_SET: &[(&str, &str)] = &[
    ("npm_config_audit", "false"),
    ("npm_config_fetch_retries", "2"),
    ("npm_config_fetch_retry_maxtimeout", "10000"),
    ("npm_config_fetch_retry_mintimeout", "1000"),
    ("npm_config_fund", "false"),
    ("npm_config_include", "dev"),
    ("npm_config_prefer_offline", "true"),
    ("npm_config_update_notifier", "false"),
    ("npm_config_yes", "true"),
];

/// A shim of corepack asks before it downloads.
const COREPACK_SET: (&str, &str) = ("COREPACK_ENABLE_DOWNLOAD_PROMPT", "0");

const NODE_SETTINGS: &[&str] = &[".npmrc", ".node-version", ".nvmrc", ".tool-versions"];

/// Whatever leads a Python tool to an environment that is not the lane's.
const PYTHON_UNSET: &[&str] = &[
    "CONDA_PREFIX",
    "PIP_PREFIX",
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_TARGET",
    "PIP_USER",
    "PIPENV_ACTIVE",
    "POETRY_ACTIVE",
    "PYTHONUSERBASE",
    "UV_PYTHON",
    "UV_SYSTEM_PYTHON",
];

const PYTHON_SETTINGS: &[&str] = &[".python-version", ".tool-versions", "pip.conf"];

const NPM_SAYS: &[Says] = &[
    Says::once("can only install packages when your package.json and", Cause::LockMismatch),
    Says::once("The `npm ci` command can only install with an existing", Cause::LockMismatch),
    Says::once("EJSONPARSE", Cause::LockMismatch),
    Says::once("EBADENGINE", Cause::ToolMissing),
    Says::once("ESTRICTALLOWSCRIPTS", Cause::ScriptFailed),
    Says::again("npm error command failed", Cause::ScriptFailed),
    Says::again("npm ERR! command failed", Cause::ScriptFailed),
    Says::again("ENOTCACHED", Cause::Network),
];

const PIP_SAYS: &[Says] = &[
    Says::once("ensurepip is not available", Cause::ToolMissing),
    Says::once("User for ", Cause::Auth),
    Says::again("ProxyError", Cause::Network),
    Says::again("NewConnectionError", Cause::Network),
    Says::again("ReadTimeoutError", Cause::Network),
    Says::again("THESE PACKAGES DO NOT MATCH THE HASHES", Cause::Unknown),
    Says::again("Failed to build", Cause::ScriptFailed),
    Says::again("Failed building wheel", Cause::ScriptFailed),
    Says::again("subprocess-exited-with-error", Cause::ScriptFailed),
];

/// Every row, in the order in which steps run and in which rows of a family are asked.
pub static ECOSYSTEMS: &[Ecosystem] = &[
    Ecosystem {
        name: "git-lfs",
        family: Family::LargeFiles,
        when: When::Holds(".gitattributes", "filter=lfs"),
        manifests: &[".gitattributes"],
        settings: &[".lfsconfig"],
        command: "git lfs pull",
        tool: "git-lfs",
        versions: &[("git-lfs", &["version"])],
        look: Look::Lfs,
        says: &[Says::again("batch response:", Cause::Network)],
        ..PLAIN
    },
    Ecosystem {
        name: "git-submodules",
        family: Family::Submodules,
        locks: &[".gitmodules"],
        // Each worktree gets clones of its own, in its own git folder (measured).
        command: "git submodule update --init --recursive",
        tool: "git",
        look: Look::Submodules,
        says: &[
            Says::again("Could not read from remote repository", Cause::Network),
            Says::again("Failed to clone", Cause::Network),
            Says::once("transport 'file' not allowed", Cause::Auth),
        ],
        // Again it would check out the commit of the index, and move HEAD off what a node committed there.
        once: true,
        alone: Alone::Repository,
        ..PLAIN
    },
    Ecosystem {
        name: "pnpm",
        locks: &["pnpm-lock.yaml"],
        manifests: &["package.json"],
        settings: &[
            ".npmrc",
            ".node-version",
            ".nvmrc",
            ".tool-versions",
            ".pnpmfile.cjs",
            "pnpm-workspace.yaml",
        ],
        command: "pnpm install --frozen-lockfile --prefer-offline",
        tool: "pnpm",
        versions: &[("pnpm", &["--version"]), ("node", &["--version"])],
        look: Look::Pnpm,
        folders: &["node_modules"],
        set: &[
            COREPACK_SET,
            ("npm_config_fetch_retries", "2"),
            ("npm_config_fetch_retry_maxtimeout", "10000"),
            ("npm_config_fetch_retry_mintimeout", "1000"),
            // It would ask whether to remove a tree of another layout, and has no terminal to ask on.
            ("npm_config_confirm_modules_purge", "false"),
            ("pnpm_config_confirm_modules_purge", "false"),
            // From 11 on, scripts that nobody decided on end a complete installation with 1; 10 only says so.
            ("pnpm_config_strict_dep_builds", "false"),
        ],
        // From 11 on `pnpm run` installs first, and rewrites the lockfile where it likes to (measured).
        for_nodes: &[("pnpm_config_verify_deps_before_run", "false")],
        says: &[
            Says::once("ERR_PNPM_OUTDATED_LOCKFILE", Cause::LockMismatch),
            Says::once("ERR_PNPM_FROZEN_LOCKFILE_WITH_OUTDATED_LOCKFILE", Cause::LockMismatch),
            Says::once("ERR_PNPM_LOCKFILE_CONFIG_MISMATCH", Cause::LockMismatch),
            Says::once("ERR_PNPM_LOCKFILE_BREAKING_CHANGE", Cause::LockMismatch),
            Says::once("Headless installation requires", Cause::LockMismatch),
            Says::once("ERR_PNPM_IGNORED_BUILDS", Cause::ScriptFailed),
            Says::once("ERR_PNPM_UNSUPPORTED_ENGINE", Cause::ToolMissing),
            Says::once("This project is configured to use", Cause::ToolMissing),
            Says::once("ERR_PNPM_FETCH_401", Cause::Auth),
            Says::once("ERR_PNPM_FETCH_403", Cause::Auth),
            Says::again("ERR_PNPM_META_FETCH_FAIL", Cause::Network),
            Says::again("ERR_PNPM_FETCH_", Cause::Network),
            Says::again("ELIFECYCLE", Cause::ScriptFailed),
            Says::again("install: Failed", Cause::ScriptFailed),
            Says::again("prepare: Failed", Cause::ScriptFailed),
        ],
        remarks: &[(
            "Ignored build scripts",
            "what needs its build will not work: `pnpm.onlyBuiltDependencies` or `allowBuilds` decides",
        )],
        ..PLAIN
    },
    Ecosystem {
        name: "npm",
        locks: &["package-lock.json", "npm-shrinkwrap.json"],
        manifests: &["package.json"],
        settings: NODE_SETTINGS,
        command: "npm ci",
        tool: "npm",
        versions: &[("npm", &["--version"]), ("node", &["--version"])],
        look: Look::Npm,
        folders: &["node_modules"],
        set: NPM_SET,
        says: NPM_SAYS,
        ..PLAIN
    },
    Ecosystem {
        name: "yarn-berry",
        when: When::LockedWith("__metadata:", ".yarnrc.yml"),
        locks: &["yarn.lock"],
        manifests: &["package.json"],
        settings: &[".npmrc", ".node-version", ".nvmrc", ".tool-versions", ".yarnrc.yml"],
        command: "yarn install --immutable",
        tool: "yarn",
        versions: &[("yarn", &["--version"]), ("node", &["--version"])],
        look: Look::YarnBerry,
        folders: &["node_modules"],
        set: &[COREPACK_SET, ("YARN_ENABLE_TELEMETRY", "0"), ("YARN_HTTP_RETRY", "2")],
        says: &[
            Says::once("YN0028", Cause::LockMismatch),
            Says::once("YN0041", Cause::Auth),
            Says::once("Response Code: 401", Cause::Auth),
            Says::once("Response Code: 403", Cause::Auth),
            Says::again("The registry appears to be down", Cause::Network),
            Says::again("RequestError", Cause::Network),
            Says::again("YN0009", Cause::ScriptFailed),
        ],
        ..PLAIN
    },
    Ecosystem {
        name: "yarn",
        locks: &["yarn.lock"],
        manifests: &["package.json"],
        settings: &[".npmrc", ".node-version", ".nvmrc", ".tool-versions", ".yarnrc"],
        command: "yarn install --frozen-lockfile",
        tool: "yarn",
        versions: &[("yarn", &["--version"]), ("node", &["--version"])],
        look: Look::YarnClassic,
        folders: &["node_modules"],
        set: &[COREPACK_SET, ("YARN_NON_INTERACTIVE", "1")],
        says: &[
            Says::once("Your lockfile needs to be updated", Cause::LockMismatch),
            Says::once("Found incompatible module", Cause::ToolMissing),
            Says::again("trouble with your network connection", Cause::Network),
            Says::again("Can't make a request in offline mode", Cause::Network),
            Says::again("error Command failed", Cause::ScriptFailed),
            Says::again("Command failed.", Cause::ScriptFailed),
        ],
        // Measured: two installs on a cold cache at once fail both, three times of three.
        alone: Alone::Cache,
        ..PLAIN
    },
    Ecosystem {
        name: "bun",
        locks: &["bun.lock", "bun.lockb"],
        manifests: &["package.json"],
        settings: &[".npmrc", "bunfig.toml"],
        command: "bun install --frozen-lockfile",
        tool: "bun",
        versions: &[("bun", &["--version"])],
        look: Look::Bun,
        folders: &["node_modules"],
        says: &[
            Says::once("lockfile had changes, but lockfile is frozen", Cause::LockMismatch),
            Says::once("lockfile is frozen", Cause::LockMismatch),
            Says::once(" - 401\n", Cause::Auth),
            Says::once(" - 403\n", Cause::Auth),
            Says::again(" - 50", Cause::Network),
            Says::again("ConnectionRefused", Cause::Network),
            Says::again("postinstall script", Cause::ScriptFailed),
        ],
        ..PLAIN
    },
    Ecosystem {
        name: "npm without a lockfile",
        when: When::NodeDependencies,
        manifests: &["package.json"],
        settings: NODE_SETTINGS,
        command: "npm install --no-package-lock",
        tool: "npm",
        versions: &[("npm", &["--version"]), ("node", &["--version"])],
        mark: Some("node_modules/.package-lock.json"),
        look: Look::Npm,
        folders: &["node_modules"],
        set: NPM_SET,
        says: NPM_SAYS,
        unpinned: true,
        ..PLAIN
    },
    Ecosystem {
        name: "deno",
        family: Family::Deno,
        locks: &["deno.lock"],
        manifests: &["deno.json", "deno.jsonc"],
        settings: &["package.json"],
        command: "deno install --frozen",
        tool: "deno",
        versions: &[("deno", &["--version"])],
        folders: &["node_modules"],
        says: &[
            Says::once("The lockfile is out of date", Cause::LockMismatch),
            Says::again("error sending request", Cause::Network),
        ],
        ..PLAIN
    },
    Ecosystem {
        name: "uv",
        family: Family::Python,
        locks: &["uv.lock"],
        manifests: &["pyproject.toml"],
        settings: &[".python-version", ".tool-versions", "uv.toml", "setup.py", "setup.cfg"],
        command: "uv sync --locked",
        tool: "uv",
        versions: &[("uv", &["--version"])],
        look: Look::Venv,
        folders: &[".venv"],
        unset: PYTHON_UNSET,
        says: &[
            Says::once("needs to be updated, but `--locked` was provided", Cause::LockMismatch),
            Says::once("Unable to find lockfile", Cause::LockMismatch),
            Says::once("No interpreter found", Cause::ToolMissing),
            Says::again("Network connectivity is disabled", Cause::Network),
            Says::again("error sending request", Cause::Network),
            Says::again("Failed to build", Cause::ScriptFailed),
        ],
        ..PLAIN
    },
    Ecosystem {
        name: "poetry",
        family: Family::Python,
        locks: &["poetry.lock"],
        manifests: &["pyproject.toml"],
        settings: &[".python-version", ".tool-versions", "poetry.toml"],
        command: "poetry check --lock --no-interaction && poetry sync --no-interaction",
        tool: "poetry",
        versions: &[("poetry", &["--version", "--no-ansi"])],
        mark: Some(".venv/pyvenv.cfg"),
        look: Look::Poetry,
        folders: &[".venv"],
        // By default its environments lie in a cache, one for each lane's path for ever.
        set: &[("POETRY_VIRTUALENVS_CREATE", "true"), ("POETRY_VIRTUALENVS_IN_PROJECT", "true")],
        unset: PYTHON_UNSET,
        says: &[
            Says::once("changed significantly since", Cause::LockMismatch),
            Says::once("poetry.lock was not found", Cause::LockMismatch),
            Says::once("Current Python version", Cause::ToolMissing),
            Says::again("All attempts to connect", Cause::Network),
            Says::again("Build backend", Cause::ScriptFailed),
        ],
        ..PLAIN
    },
    Ecosystem {
        name: "pdm",
        family: Family::Python,
        locks: &["pdm.lock"],
        manifests: &["pyproject.toml"],
        settings: &[".python-version", "pdm.toml"],
        command: "pdm install --check --frozen-lockfile",
        tool: "pdm",
        versions: &[("pdm", &["--version"])],
        mark: Some(".venv/pyvenv.cfg"),
        look: Look::Venv,
        folders: &[".venv"],
        set: &[("PDM_IGNORE_ACTIVE_VENV", "1"), ("PDM_CHECK_UPDATE", "0"), ("PDM_USE_VENV", "1")],
        unset: PYTHON_UNSET,
        says: &[
            Says::once("Lock file hash doesn't match", Cause::LockMismatch),
            Says::once("Lock file does not exist", Cause::LockMismatch),
        ],
        ..PLAIN
    },
    Ecosystem {
        name: "pipenv",
        family: Family::Python,
        locks: &["Pipfile.lock"],
        manifests: &["Pipfile"],
        settings: PYTHON_SETTINGS,
        command: "pipenv verify && pipenv sync --dev",
        tool: "pipenv",
        versions: &[("pipenv", &["--version"])],
        mark: Some(".venv/pyvenv.cfg"),
        look: Look::Venv,
        folders: &[".venv"],
        set: &[
            ("PIPENV_IGNORE_VIRTUALENVS", "1"),
            ("PIPENV_NOSPIN", "1"),
            ("PIPENV_VENV_IN_PROJECT", "1"),
            ("PIPENV_YES", "1"),
        ],
        unset: PYTHON_UNSET,
        says: &[Says::once("Pipfile.lock is out-of-date", Cause::LockMismatch)],
        ..PLAIN
    },
    Ecosystem {
        name: "pip for a project",
        family: Family::Python,
        when: When::PythonProject,
        manifests: &["pyproject.toml"],
        settings: &[".python-version", ".tool-versions", "pip.conf", "setup.py", "setup.cfg"],
        command: "python3 -m venv --clear .venv && printf '*\\n' > .venv/.gitignore && .venv/bin/python -m pip install --require-virtualenv -e .",
        tool: "python3",
        versions: &[("python3", &["--version"])],
        mark: Some(".venv/pyvenv.cfg"),
        look: Look::Venv,
        folders: &[".venv"],
        set: &[("PIP_DISABLE_PIP_VERSION_CHECK", "1"), ("PIP_NO_INPUT", "1")],
        unset: PYTHON_UNSET,
        says: PIP_SAYS,
        unpinned: true,
        ..PLAIN
    },
    Ecosystem {
        name: "pip",
        family: Family::Python,
        locks: &["requirements.txt"],
        settings: PYTHON_SETTINGS,
        // The environment ignores itself, as newer versions of venv have it do, or it would make the lane dirty.
        command: "python3 -m venv --clear .venv && printf '*\\n' > .venv/.gitignore && .venv/bin/python -m pip install --require-virtualenv -r requirements.txt",
        tool: "python3",
        versions: &[("python3", &["--version"])],
        mark: Some(".venv/pyvenv.cfg"),
        look: Look::Venv,
        folders: &[".venv"],
        set: &[("PIP_DISABLE_PIP_VERSION_CHECK", "1"), ("PIP_NO_INPUT", "1")],
        unset: PYTHON_UNSET,
        says: PIP_SAYS,
        ..PLAIN
    },
    Ecosystem {
        name: "cargo",
        family: Family::Rust,
        locks: &["Cargo.lock"],
        manifests: &["Cargo.toml"],
        settings: &[".cargo/config.toml", ".cargo/config", "rust-toolchain", "rust-toolchain.toml"],
        command: "cargo fetch --locked",
        tool: "cargo",
        versions: &[("rustc", &["-vV"])],
        says: &[
            Says::once("because --locked was passed", Cause::LockMismatch),
            Says::once("require a credential-provider", Cause::Auth),
            Says::once(", got 401", Cause::Auth),
            Says::once(", got 403", Cause::Auth),
            Says::again(", got 50", Cause::Network),
            Says::once("is not installed", Cause::ToolMissing),
            Says::again("Could not connect", Cause::Network),
            Says::again("spurious network error", Cause::Network),
        ],
        ..PLAIN
    },
    Ecosystem {
        name: "go",
        family: Family::Go,
        locks: &["go.mod", "go.work"],
        manifests: &["go.mod", "go.sum"],
        settings: &["go.work", "go.work.sum", "vendor/modules.txt"],
        command: "go mod download",
        tool: "go",
        versions: &[("go", &["version"])],
        unset: &["GOWORK"],
        says: &[
            Says::once("missing go.sum entry", Cause::LockMismatch),
            Says::once("updates to go.mod needed", Cause::LockMismatch),
            Says::again("checksum mismatch", Cause::Unknown),
            Says::once("errors parsing go.mod", Cause::LockMismatch),
            Says::once("module lookup disabled by GOPROXY=off", Cause::Network),
            Says::again("dial tcp", Cause::Network),
        ],
        ..PLAIN
    },
    Ecosystem {
        name: "bundler",
        family: Family::Ruby,
        locks: &["Gemfile.lock"],
        manifests: &["Gemfile"],
        settings: &[".ruby-version", ".tool-versions", ".bundle/config"],
        command: "bundle install",
        tool: "bundle",
        versions: &[("bundle", &["--version"]), ("ruby", &["--version"])],
        look: Look::Bundler,
        folders: &["vendor/bundle"],
        set: &[("BUNDLE_FROZEN", "true"), ("BUNDLE_PATH", "vendor/bundle")],
        // Its nodes have to look where it was installed.
        for_nodes: &[("BUNDLE_PATH", "vendor/bundle")],
        says: &[
            Says::once("frozen mode", Cause::LockMismatch),
            Says::once("the lockfile can't be updated", Cause::LockMismatch),
            Says::again("Could not reach host", Cause::Network),
            Says::again("Failed to build gem native extension", Cause::ScriptFailed),
        ],
        ..PLAIN
    },
    Ecosystem {
        name: "composer",
        family: Family::Php,
        locks: &["composer.lock"],
        manifests: &["composer.json"],
        settings: &["auth.json"],
        command: "composer install --no-interaction --no-progress --prefer-dist",
        tool: "composer",
        versions: &[("composer", &["--version", "--no-ansi"]), ("php", &["--version"])],
        look: Look::Composer,
        folders: &["vendor"],
        says: &[
            Says::once("lock file is not up to date", Cause::LockMismatch),
            Says::once("is not present in the lock file", Cause::LockMismatch),
            Says::again("curl error", Cause::Network),
        ],
        ..PLAIN
    },
    Ecosystem {
        name: "mix",
        family: Family::Elixir,
        locks: &["mix.lock"],
        manifests: &["mix.exs"],
        settings: &[".tool-versions"],
        command: "mix deps.get --check-locked",
        tool: "mix",
        versions: &[("mix", &["--version"])],
        look: Look::Mix,
        folders: &["deps"],
        says: &[
            Says::once("lock is out of date", Cause::LockMismatch),
            Says::once("mix.lock is out of date", Cause::LockMismatch),
            Says::once("Could not find Hex", Cause::ToolMissing),
        ],
        ..PLAIN
    },
    Ecosystem {
        name: "dotnet",
        family: Family::Dotnet,
        locks: &["packages.lock.json"],
        settings: &["global.json", "nuget.config", "NuGet.config", "Directory.Packages.props"],
        command: "dotnet restore --locked-mode",
        tool: "dotnet",
        versions: &[("dotnet", &["--version"])],
        look: Look::Dotnet,
        folders: &["obj"],
        set: &[("DOTNET_CLI_TELEMETRY_OPTOUT", "1"), ("DOTNET_NOLOGO", "1")],
        says: &[
            Says::once("NU1004", Cause::LockMismatch),
            Says::once("NU1403", Cause::LockMismatch),
            Says::again("NU1301", Cause::Network),
        ],
        ..PLAIN
    },
    // The wrappers fetch the build tool itself. What it builds with comes when it builds: asking for
    // all of that beforehand fails for builds that work.
    Ecosystem {
        name: "maven",
        family: Family::Jvm,
        when: When::Tracked(&["mvnw", "pom.xml"]),
        manifests: &["pom.xml"],
        settings: &[".mvn/wrapper/maven-wrapper.properties", ".mvn/maven.config"],
        command: "./mvnw --batch-mode --version",
        tool: "./mvnw",
        ..PLAIN
    },
    Ecosystem {
        name: "gradle",
        family: Family::Jvm,
        when: When::Tracked(&["gradlew", "gradle/wrapper/gradle-wrapper.properties"]),
        settings: &["gradle/wrapper/gradle-wrapper.properties", "gradle.properties"],
        command: "./gradlew --no-daemon --version",
        tool: "./gradlew",
        ..PLAIN
    },
];

/// Returns the row of a name.
pub fn ecosystem(name: &str) -> Option<&'static Ecosystem> {
    ECOSYSTEMS.iter().find(|row| row.name == name)
}

/// Returns every file that a row probes in a root, sorted, each once.
pub fn probed_names() -> Vec<&'static str> {
    let mut names: Vec<&str> =
        ECOSYSTEMS.iter().flat_map(|row| row.probed()).chain(["package.json", "pyproject.toml"]).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the names of folders that some row makes, sorted, each once.
pub fn dependency_folders() -> Vec<&'static str> {
    let mut names: Vec<&str> = ECOSYSTEMS.iter().flat_map(|row| row.folders).copied().collect();
    names.sort_unstable();
    names.dedup();
    names
}
